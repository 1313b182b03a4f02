//go:build !race

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/http1"
)

// maxTranslated is the largest processor time of a translated call, relative to that of an
// untranslated call, as the median of the rounds. The client and the upstream of the test are
// part of both and cost next to nothing.
const maxTranslated = 1.5

// TestTranslationBudget compares translated calls with untranslated ones, in rounds that have
// some of each.
func TestTranslationBudget(t *testing.T) {
	const rounds, calls = 30, 200
	kinds := []struct {
		name, protocol string
		modern         bool
		untranslated   int // index of the untranslated case
	}{
		{"2026-07-28, as it is", "2026-07-28", true, 0},
		{"2026-07-28 at a server with sessions", "2025-11-25", true, 0},
		{"sessions, as they are", "2025-11-25", false, 2},
		{"sessions at a server of 2026-07-28", "2026-07-28", false, 2},
	}
	run := make([]func(), len(kinds))
	for i, kind := range kinds {
		run[i] = callsThroughTheFront(t, kind.protocol, kind.modern, calls)
		run[i]()
	}
	ratios := make([][]float64, len(kinds))
	for range rounds {
		took := make([]time.Duration, len(kinds))
		for i := range kinds {
			before := processorTime(t)
			run[i]()
			took[i] = processorTime(t) - before
		}
		for i, kind := range kinds {
			ratios[i] = append(ratios[i], float64(took[i])/float64(took[kind.untranslated]))
		}
	}
	for i, kind := range kinds {
		if kind.untranslated == i {
			continue
		}
		slices.Sort(ratios[i])
		median := ratios[i][rounds/2]
		t.Logf("%s: %.2f times the processor time, median of %d rounds (%.2f to %.2f)", kind.name, median, rounds, ratios[i][rounds/10], ratios[i][rounds-rounds/10-1])
		if median > maxTranslated {
			t.Errorf("%s: %.2f times the processor time of a call that is not translated, want at most %.1f", kind.name, median, maxTranslated)
		}
	}
}

// callsThroughTheFront returns a function that makes calls over one connection to a gateway whose
// upstream has one revision.
func callsThroughTheFront(t *testing.T, protocol string, modern bool, calls int) func() {
	up := echoingUpstream(t)
	r := newRig(t, strings.Replace(basic(up), "    url: "+up+"\n", "    url: "+up+"\n    protocol: "+protocol+"\n", 1))
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := http1.NewServer(http1.Options{Paths: []string{gateway.Path}, Handler: r.gateway, Fallback: &http.Server{Handler: r.gateway}, BodyRate: 1})
	served := make(chan error, 1)
	go func() { served <- server.Serve(near) }()
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-served
	})
	body, headers := call("1", "safe"), []string{}
	if modern {
		body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		headers = append(modernHeaders("tools/call"), "Mcp-Name", "safe")
	} else {
		headers = append(headers, "Mcp-Session-Id", r.begin(), "MCP-Protocol-Version", "2025-06-18")
	}
	var b bytes.Buffer
	req, err := http.NewRequest(http.MethodPost, "http://"+near.Addr().String()+gateway.Path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if err := req.Write(&b); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	request, buf := b.Bytes(), make([]byte, 4096)
	return func() {
		for range calls {
			if _, err := c.Write(request); err != nil {
				t.Fatal(err)
			}
			n, err := c.Read(buf) // the response is one write
			if err != nil || !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200 ")) || !bytes.Contains(buf[:n], []byte(`"content":[]`)) {
				t.Fatalf("%q %v", buf[:n], err)
			}
		}
	}
}

// echoingUpstream answers as a server of either generation does, with next to no work. It takes
// one read for one request.
func echoingUpstream(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go answerRaw(c)
		}
	}()
	return "http://" + ln.Addr().String() + "/mcp"
}

func answerRaw(c net.Conn) {
	defer c.Close()
	buf, out := make([]byte, 64<<10), make([]byte, 0, 1<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		result, more := `{"content":[]}`, ""
		_, rest, ok := bytes.Cut(buf[:n], []byte(`"id":`))
		switch id := bytes.IndexAny(rest, ",}"); {
		case !ok:
			out = append(out[:0], "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"...)
		default:
			if bytes.Contains(buf[:n], []byte(`"initialize"`)) {
				result, more = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`, "Mcp-Session-Id: s\r\n"
			} else if bytes.Contains(buf[:n], []byte("Mcp-Session-Id")) == bytes.Contains(buf[:n], []byte("2026-07-28")) {
				result = `{"resultType":"complete","content":[],"supportedVersions":["2026-07-28"],"capabilities":{}}`
			}
			text := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, rest[:max(id, 0)], result)
			out = fmt.Appendf(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", more, len(text), text)
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
