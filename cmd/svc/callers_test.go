package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestConcurrentCallersDoNotMix: many concurrent connections, each with its own
// requests, some of them pipelined, and some connections that close early: no
// client gets a response, a header or an audit line of another one.
func TestConcurrentCallersDoNotMix(t *testing.T) {
	const callers, calls = 24, 120
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var msg struct {
			ID     json.RawMessage
			Params struct{ Name string }
		}
		if err := json.Unmarshal(body, &msg); err != nil {
			t.Errorf("upstream got %q: %v", body, err)
		}
		if strings.HasPrefix(msg.Params.Name, "leave") {
			<-r.Context().Done()
			return
		}
		text, _ := json.Marshal(string(body) + r.Header.Get("X-Own"))
		result := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, msg.ID, text)
		if len(body)%2 == 0 {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", result)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, result)
	}))
	defer up.Close()
	b := besiege(t, up.URL, "forward_headers: [X-Own]\n")
	request := func(id, tool, own string, filler int) string {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"a":%q}}}`, id, tool, id+strings.Repeat("x", filler))
		return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nX-Own: %s\r\nTraceparent: 00-%032x-00000000000000ff-01\r\nContent-Length: %d\r\n\r\n%s",
			b.addr, own, len(own)+1, len(body), body)
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			nc, err := net.Dial("tcp", b.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { nc.Close() }()
			nc.SetDeadline(time.Now().Add(60 * time.Second))
			in := bufio.NewReader(nc)
			for i := 0; i < calls; i++ {
				if i%40 == 20 { // a client that disconnects while its call is in flight
					leaving, err := net.Dial("tcp", b.addr)
					if err != nil {
						t.Error(err)
						return
					}
					io.WriteString(leaving, request(fmt.Sprintf("l%d-%d", c, i), fmt.Sprintf("leave%d-%d", c, i), "none", 0))
					time.Sleep(time.Millisecond)
					leaving.Close()
				}
				ahead := 1 + i%3 // the number of pipelined requests
				var text string
				for k := range ahead {
					id := fmt.Sprintf("c%d-%d-%d", c, i, k)
					text += request(id, "t"+id, "own-"+id, (i*37+k*11)%5000)
				}
				if _, err := io.WriteString(nc, text); err != nil {
					t.Error(err)
					return
				}
				for k := range ahead {
					id := fmt.Sprintf("c%d-%d-%d", c, i, k)
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Errorf("%s: %v", id, err)
						return
					}
					body, err := io.ReadAll(resp.Body)
					filler := strings.Repeat("x", (i*37+k*11)%5000)
					if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), `"id":"`+id+`"`) ||
						!strings.Contains(string(body), id+filler+`\"`) || !strings.Contains(string(body), "own-"+id+`"`) {
						t.Errorf("%s got %d %.300s %v", id, resp.StatusCode, body, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	left := 0
	told := func() bool {
		left = 0
		for _, line := range b.lines("request") {
			if line["error_kind"] == "client_closed" {
				left++
			}
		}
		return left == callers*3
	}
	if !holdsWithin(10*time.Second, told) {
		t.Errorf("%d lines record a disconnected client, want %d", left, callers*3)
	}
	for _, line := range b.lines("request") {
		tool, _ := line["tool"].(string)
		if want := fmt.Sprintf("%032x", len("own-")+len(tool)); !strings.HasPrefix(tool, "leave") && line["trace_id"] != want {
			t.Errorf("the line of %s has trace %v, want %s", tool, line["trace_id"], want)
		}
	}
}
