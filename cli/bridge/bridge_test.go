package bridge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// talk sends lines to a bridge in front of handler. It returns the lines that come back
// until the bridge has ended, and its log.
func talk(t *testing.T, o Options, handler http.HandlerFunc, input ...string) (out []string, log string) {
	t.Helper()
	s := httptest.NewServer(handler)
	defer s.Close()
	if o.URL == "" {
		o.URL = s.URL
	}
	if o.Key == nil {
		o.Key = func() (string, error) { return "s3cret", nil }
	}
	var stdout, stderr strings.Builder
	o.In, o.Out, o.Log = strings.NewReader(strings.Join(input, "\n")), &stdout, &stderr
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stdout.String()+stderr.String(), "s3cret") {
		t.Errorf("the key is shown: %q %q", stdout.String(), stderr.String())
	}
	return strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n"), stderr.String()
}

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

func answer(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if media != "" {
			w.Header().Set("Content-Type", media)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// For every response of the endpoint the client gets one message with the id of its
// request.
func TestEveryAnswerBecomesOneLine(t *testing.T) {
	const js = "application/json"
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"JSON", answer(200, js, `{"jsonrpc":"2.0","id":7,"result":{}}`), `{"jsonrpc":"2.0","id":7,"result":{}}`},
		{"JSON on several lines", answer(200, js+"; charset=utf-8", "{\n \"jsonrpc\": \"2.0\",\r\n \"id\": 7, \"result\": {\"a\": \"b\\nc\"}\n}\n"), `{"jsonrpc":"2.0","id":7,"result":{"a":"b\nc"}}`},
		{"events", answer(200, "text/event-stream", ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\"result\":{}}\n\n"), `{"jsonrpc":"2.0","id":7,"result":{}}`},
		{"a refusal with the id", answer(403, js, `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"policy_denied"}}`), `"id":7,"error":{"code":-32001,"message":"policy_denied"`},
		{"a refusal without the id", answer(429, js, `{"jsonrpc":"2.0","id":null,"error":{"code":-32003,"message":"rate_limited"}}`), `"id":7,"error":{"code":-32003`},
		{"no key", answer(401, "", ""), `does not accept the key (status 401)`},
		{"a wrong path", answer(404, "text/plain", "404 page not found"), `no MCP endpoint at the URL (status 404)`},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example/", http.StatusFound)
		}, `status 302, which redirects to https://login.example/:`},
		{"a web page", answer(200, "text/html", "<html>"), `is not JSON`},
		{"nothing", answer(202, "", ""), `is not JSON`},
		{"an error of a proxy", answer(502, "text/html", "<html>"), `status 502 Bad Gateway`},
		{"a stream that ends", answer(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"), `the event stream ended before the response`},
		{"too much", answer(200, js, `{"jsonrpc":"2.0","id":7,"result":{"x":"`+strings.Repeat("x", 30_000)+`"}}`), `more than 2000 bytes`},
		{"too much in an event", answer(200, "text/event-stream", "data: "+strings.Repeat("x", 30_000)+"\n\n"), `more than 2000 bytes`},
		{"no HTTP", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, `the gateway did not respond`},
	} {
		out, _ := talk(t, Options{MaxLine: 2000}, tt.handler, ping)
		last := out[len(out)-1]
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal([]byte(last), &m); err != nil || m.ID == nil || *m.ID != 7 || (m.Result == nil) == (m.Error == nil) || !strings.Contains(last, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, out, tt.want)
		}
	}
}

// Invalid input gets an error response, and the following input is served.
func TestInputThatIsNoMessage(t *testing.T) {
	out, _ := talk(t, Options{MaxLine: 2000}, answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{}}`),
		"", "  ", "hello", `[]`, `{"jsonrpc":"2.0","id":1}`, strings.Repeat("x", 300_000), ping)
	if len(out) != 5 {
		t.Fatalf("%d lines: %q", len(out), out)
	}
	for i, want := range []string{"-32700", "batches", `"id":1,"error":{"code":-32600`, "more than 2000 bytes"} {
		if !strings.Contains(out[i], want) {
			t.Errorf("line %d: %s, want %s", i, out[i], want)
		}
	}
	if !strings.Contains(out[4], `"result"`) {
		t.Errorf("the request after: %s", out[4])
	}
}

// A key that was replaced in its file is read again after the old one was rejected.
func TestAReplacedKeyIsReadAgain(t *testing.T) {
	var asked atomic.Int32
	key := func() (string, error) {
		if asked.Add(1) == 1 {
			return "old", nil
		}
		return "new", nil
	}
	out, _ := talk(t, Options{Key: key}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(401)
			return
		}
		answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{}}`)(w, r)
	}, ping)
	if !strings.Contains(out[0], `"result"`) || asked.Load() != 2 {
		t.Errorf("%q after %d readings", out, asked.Load())
	}
}

// While the gateway restarts, requests wait for it.
func TestRequestsWaitForARestart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	dialed := make(chan struct{}, 100)
	transport := &http.Transport{DialContext: nil}
	s := &http.Server{Handler: answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{}}`)}
	defer s.Close()
	go func() {
		<-dialed // the first attempt to connect has failed
		again, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		_ = s.Serve(again)
	}()
	out, _ := talk(t, Options{URL: "http://" + address, Grace: 10 * time.Second, Transport: notify{transport, dialed}}, nil, ping)
	if !strings.Contains(out[0], `"result"`) {
		t.Errorf("%q", out)
	}
	out, _ = talk(t, Options{URL: "http://127.0.0.1:1", Patience: time.Millisecond}, nil, ping)
	if !strings.Contains(out[0], "connection refused") {
		t.Errorf("after the patience: %q", out)
	}
}

// notify reports failed attempts to connect.
type notify struct {
	http.RoundTripper
	failed chan struct{}
}

func (n notify) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err != nil {
		n.failed <- struct{}{}
	}
	return resp, err
}

// A stream whose events have ids is resumed after a disconnection.
func TestABrokenStreamIsResumed(t *testing.T) {
	out, _ := talk(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch r.Method + " " + r.Header.Get("Last-Event-ID") {
		case "POST ":
			fmt.Fprint(w, "retry: 1\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
		case "GET 1":
			fmt.Fprint(w, "id: 2\ndata:\n\n")
		case "GET 2":
			fmt.Fprint(w, "id: 3\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
		}
	}, ping)
	if len(out) != 2 || !strings.Contains(out[1], `"result"`) {
		t.Errorf("%q", out)
	}
}

// A session that replaces a lost one is brought to the same state.
func TestANewSessionHasTheStateOfTheLostOne(t *testing.T) {
	var sessions atomic.Int32
	got := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(405)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.Unmarshal(body, &m)
		id := r.Header.Get("Mcp-Session-Id")
		got <- m.Method + " " + id + " " + r.Header.Get("Mcp-Protocol-Version")
		result := `{}`
		switch {
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions.Add(1)))
			result = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`
		case id == "s1" && m.Method == "ping":
			answer(404, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"session_not_found"}}`)(w, r)
			return
		case m.ID == nil:
			w.WriteHeader(202)
			return
		}
		answer(200, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))(w, r)
	}))
	defer s.Close()
	in, stdin := io.Pipe()
	stdout, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Options{URL: s.URL, In: in, Out: w, Log: io.Discard, Key: func() (string, error) { return "", nil }})
	}()
	out := bufio.NewScanner(stdout)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"file:///a"}}`,
		ping,
	} {
		fmt.Fprintln(stdin, line)
		if strings.Contains(line, `"id"`) && !out.Scan() {
			t.Fatal("no answer")
		}
	}
	if !strings.Contains(out.Text(), `"id":7,"result"`) {
		t.Errorf("the request: %s", out.Text())
	}
	stdin.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	close(got)
	var list []string
	for line := range got {
		list = append(list, line)
	}
	want := []string{"initialize  ", "notifications/initialized s1 2025-11-25", "logging/setLevel s1 2025-11-25", "resources/subscribe s1 2025-11-25", "ping s1 2025-11-25",
		"initialize  ", "notifications/initialized s2 2025-11-25", "logging/setLevel s2 2025-11-25", "resources/subscribe s2 2025-11-25", "ping s2 2025-11-25"}
	if fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("sent\n%q, want\n%q", list, want)
	}
}

// A client that has disconnected ends the program.
func TestTheEndOfTheOutputEndsTheBridge(t *testing.T) {
	s := httptest.NewServer(answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{}}`))
	defer s.Close()
	in, stdin := io.Pipe()
	defer stdin.Close()
	out, w := io.Pipe()
	out.Close()
	go fmt.Fprintln(stdin, ping)
	err := Run(t.Context(), Options{URL: s.URL, In: in, Out: w, Log: io.Discard, Key: func() (string, error) { return "", nil }})
	if err == nil || !strings.Contains(err.Error(), "standard output") {
		t.Errorf("%v", err)
	}
}
