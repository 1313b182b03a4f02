package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// A stream that a client opens to listen is no latency at the control plane for as long as it is open,
// and no error when the client closes it. One that the tool server breaks is an error.
func TestStreamsThatListenAtTheControlPlane(t *testing.T) {
	opened := make(chan string, 1)
	tools := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), "subscriptions/listen") {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			answerCall(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": open\n\n")
		_ = http.NewResponseController(w).Flush()
		if <-opened; r.Context().Err() == nil {
			<-time.After(time.Second)
		}
		fmt.Fprint(w, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		if <-opened == "break" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}))
	defer tools.Close()
	defer close(opened)
	s := startStack(t, tools.URL, "traces: {flush_interval: 10ms}")

	// listen opens a stream and returns how long that took, in milliseconds.
	listen := func(end string) float64 {
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		r, err := http.NewRequest(http.MethodPost, "http://"+s.gw.addr+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []string{"Authorization: Bearer " + s.key, "Content-Type: application/json", "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"} {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		began := time.Now()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		took := float64(time.Since(began).Microseconds()) / 1000
		opened <- "wait"
		body := bufio.NewReader(resp.Body)
		for line := ""; !strings.Contains(line, "list_changed"); {
			if line, err = body.ReadString('\n'); err != nil {
				t.Fatal(resp.Status, err)
			}
		}
		opened <- end
		if end == "break" {
			_, _ = io.Copy(io.Discard, body)
		}
		return took
	}
	longest := max(listen("stay"), listen("break"))
	if status, body := s.gw.ask(call(1), "Authorization", "Bearer "+s.key); status != 200 {
		t.Fatal(status, body)
	}

	var page api.Page[api.TraceItem]
	if !holdsWithin(time.Minute, func() bool {
		var err error
		if page, err = s.control.ListTraces(t.Context(), client.TraceQuery{Page: client.Page{Limit: 10}}); err != nil {
			t.Fatal(err)
		}
		return len(page.Data) == 3
	}) {
		t.Fatalf("%d traces, want 3", len(page.Data))
	}
	slowest, closed, broken := 0.0, 0, 0
	for _, item := range page.Data {
		slowest = max(slowest, item.DurationMs)
		if item.ToolName != "" {
			continue
		}
		full, err := s.control.GetTrace(t.Context(), item.ID)
		if err != nil {
			t.Fatal(err)
		}
		n := len(full.Spans)
		if n == 0 || full.Spans[n-1].Stage != "listening" || full.Spans[n-1].DurationMs < 1000 || full.DurationMs > longest {
			t.Errorf("opened within %v ms, but the trace has %v ms and %+v", longest, full.DurationMs, full.Spans)
		}
		switch {
		case full.Status == "success" && full.ErrorKind == "client_closed":
			closed++
			why := run(t, "why", item.ID, "--url", "http://"+s.plane.addr, "--api-key", planeKey)
			if !strings.Contains(string(why), "allowed") || !strings.Contains(string(why), "The client closed it") {
				t.Errorf("svc why:\n%s", why)
			}
		case full.Status == "error" && full.ErrorKind != "client_closed":
			broken++
		}
	}
	if closed != 1 || broken != 1 {
		t.Errorf("%d streams that the client closed, %d broken: %+v", closed, broken, page.Data)
	}
	stats, err := s.control.TraceStats(t.Context(), client.StatsQuery{Period: "24h"})
	if err != nil {
		t.Fatal(err)
	}
	if sum := stats.Summary; sum.TotalTraces != 3 || sum.ErrorCount != 1 || sum.P95DurationMs > 1.1*slowest {
		t.Errorf("the slowest trace took %v ms; %+v", slowest, sum)
	}
}
