package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/server/client"
)

// TestKilledProcessesLoseAndDoubleNoTrace runs the gateway and the control plane
// as separate processes, kills each repeatedly with SIGKILL during calls, and
// then compares: every response that a client got has its audit line, and every
// audit line has exactly one trace.
func TestKilledProcessesLoseAndDoubleNoTrace(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(answerCall))
	defer upstream.Close()
	s := startStack(t, upstream.URL, "")

	// Four agents call without pause and record the id of every call that got a
	// response.
	var answered sync.Map
	var count atomic.Int64
	stop := make(chan struct{})
	var agents sync.WaitGroup
	for a := range 4 {
		agents.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("tool_%d_%d", a, n)
				if s.callTool(id) {
					answered.Store(id, true)
					count.Add(1)
				} else {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		want := count.Load() + n
		if !holdsWithin(30*time.Second, func() bool { return count.Load() >= want }) {
			t.Errorf("%d calls were answered, want %d", count.Load(), want)
		}
	}
	for range 4 {
		more(300)
		s.gw.kill()
		s.gw.start()
		more(300)
		s.plane.kill()
		s.plane.start()
	}
	close(stop)
	agents.Wait()

	lines := s.auditedTools()
	answered.Range(func(id, _ any) bool {
		if lines[id.(string)] != 1 {
			t.Errorf("answered call %v has %d audit lines", id, lines[id.(string)])
		}
		return true
	})
	traces := s.awaitTraces(len(lines))
	for id := range lines {
		if traces[id] != 1 {
			t.Errorf("call %s has an audit line and %d traces", id, traces[id])
		}
	}
	if len(traces) != len(lines) {
		t.Errorf("%d calls in the audit files, %d in the traces", len(lines), len(traces))
	}
	t.Logf("%d calls answered, %d audited, %d traced, over 4 kills of each side", count.Load(), len(lines), len(traces))
}

// callTool reports whether the call got a complete response.
func (s *stack) callTool(tool string) bool {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q}}`, tool, tool)
	status, answer, err := s.gw.post(http.DefaultClient, body, "Authorization", "Bearer "+s.key)
	return err == nil && status == http.StatusOK && strings.Contains(answer, tool)
}

// auditedTools counts the request lines of each tool.
func (s *stack) auditedTools() map[string]int {
	s.t.Helper()
	counts := make(map[string]int)
	for _, line := range auditLines(s.t, filepath.Join(s.dir, "audit.jsonl"), "request") {
		if tool, ok := line["tool"].(string); ok {
			counts[tool]++
		}
	}
	return counts
}

// awaitTraces waits until there are as many traces, stops the gateway, so that no
// further traces can arrive, and counts the traces by tool.
func (s *stack) awaitTraces(want int) map[string]int {
	s.t.Helper()
	total := 0
	arrived := func() bool {
		page, err := s.control.ListTraces(s.t.Context(), client.TraceQuery{Page: client.Page{Limit: 1}})
		if err != nil {
			s.t.Fatal(err)
		}
		total = page.Total
		return total >= want
	}
	if !holdsWithin(30*time.Second, arrived) {
		s.t.Fatalf("%d traces after 30 s, want %d", total, want)
	}
	s.gw.stop()
	counts := make(map[string]int)
	for offset := 0; ; {
		page, err := s.control.ListTraces(s.t.Context(), client.TraceQuery{Page: client.Page{Limit: 500, Offset: offset}})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, trace := range page.Data {
			counts[trace.ToolName]++
		}
		if offset += len(page.Data); len(page.Data) == 0 || offset >= page.Total {
			return counts
		}
	}
}
