// Command onecall runs a gateway in front of one server, makes calls of one tool with an API key, and
// writes the coverage counters of the last of them to the folder counters in the folder that is its
// argument. It is built with -cover -covermode=atomic.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strings"
	"time"

	"svc/gateway"
	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/http1"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"sunny"}]}}`)
	}))
	defer upstream.Close()
	keyFile, public, err := auth.GenerateKey(dir)
	if err != nil {
		return err
	}
	license := filepath.Join(dir, "license.jwt")
	if _, err := auth.Issue(auth.Request{KeyFile: keyFile, Subject: "onecall", Days: 1, GraceDays: 1, Out: license, Now: time.Now()}); err != nil {
		return err
	}
	key, err := auth.NewKey("weather")
	if err != nil {
		return err
	}
	hash, err := auth.Hash(key, auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`listen: 127.0.0.1:0
license: {path: %s, public_key_file: %s}
audit: {path: %s}
auth: {enabled: true, keys: [{id: weather, hash: "%s"}]}
upstreams: [{name: forecast, url: "%s"}]
routes: [{match: {tool_prefix: forecast_}, upstream: forecast}]
policy: {default_action: deny, rules: [{id: forecasts, action: allow, when: {tool_prefix: forecast_}}]}
`, license, public, filepath.Join(dir, "audit.jsonl"), hash, upstream.URL+"/mcp")
	load := func() (*config.File, error) {
		f, findings := config.Parse("onecall.yaml", []byte(text), os.LookupEnv)
		for _, finding := range findings {
			log.Print(finding)
		}
		return f, nil
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Options{Config: cfg, Load: load, Version: "onecall"})
	if err != nil {
		return err
	}
	defer g.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := http1.NewServer(http1.Options{Paths: g.Paths(), Handler: g, Fallback: &http.Server{Handler: g}, BodyRate: 1})
	go func() { log.Print(server.Serve(listener)) }()
	for range 3 { // the first ones fill caches and open a connection
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		if err := call("http://"+listener.Addr().String()+g.Paths()[0], key); err != nil {
			return err
		}
	}
	counters := filepath.Join(dir, "counters")
	return errors.Join(os.Mkdir(counters, 0o700), coverage.WriteMetaDir(counters), coverage.WriteCountersDir(counters))
}

// call sends one tools/call and reads the answer.
func call(url, key string) error {
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"forecast_week","arguments":{"city":"Oslo"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"onecall","version":"1"}}}}`
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "forecast_week",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && !strings.Contains(string(answer), "sunny") {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return err
}
