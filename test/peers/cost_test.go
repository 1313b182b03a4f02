package peers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// processorTime is the processor time of a process so far, from /proc, in steps of
// 10 ms.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// BenchmarkTelemetryOfTheProcess measures the cost of telemetry relative to the cost
// of a request: the processor time of gateway processes, with and without telemetry,
// that alternately serve the same small calls over 8 connections. Upstream and
// endpoint are in the benchmark's process and are not counted. on/off is the ratio
// to the first of two gateways without telemetry; the second shows the noise of the
// measurement.
func BenchmarkTelemetryOfTheProcess(b *testing.B) {
	const clients, calls = 8, 1500
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	}))
	defer up.Close()
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer sink.Close()
	base := fmt.Sprintf("default_upstream: main\nupstreams: [{name: main, url: %q}]\nroutes: [{match: {tool_name: \"*\"}, upstream: main}]\n"+
		"policy: {default_action: deny, rules: [{id: safe, action: allow, when: {tool_name: safe}}]}\n", up.URL)
	customer := fmt.Sprintf("customer: {enabled: true, endpoint: %q", sink.URL)
	configs := []struct{ name, more string }{
		{"off", ""},
		{"metrics", "telemetry: {metrics: {listen: '127.0.0.1:0'}}\n"},
		{"spans", "telemetry: {" + customer + "}}\n"},
		{"spans+metrics", "telemetry: {metrics: {listen: '127.0.0.1:0'}, " + customer + "}}\n"},
		{"1-in-10", "telemetry: {" + customer + ", sample_ratio: 0.1}}\n"},
		{"off-again", ""},
	}
	gateways := make([]*gateway, len(configs))
	used := make([]time.Duration, len(configs))
	for i, c := range configs {
		gateways[i] = startGateway(b, base+c.more)
		load(b, gateways[i], clients, calls/5)
	}
	time.Sleep(1500 * time.Millisecond) // the exporters' second
	rounds := 0
	for b.Loop() {
		for i := range gateways {
			at := (i + rounds) % len(gateways)
			before := processorTime(b, gateways[at].cmd.Process.Pid)
			load(b, gateways[at], clients, calls)
			time.Sleep(1200 * time.Millisecond)
			used[at] += processorTime(b, gateways[at].cmd.Process.Pid) - before
		}
		rounds++
	}
	b.ReportMetric(0, "ns/op")
	for i, c := range configs {
		b.ReportMetric(float64(used[i].Microseconds())/float64(rounds*clients*calls), c.name+"-µs/call")
		if i > 0 {
			b.ReportMetric(float64(used[i])/float64(used[0]), c.name+"/off")
		}
	}
}

// load makes calls over each of several connections.
func load(b *testing.B, g *gateway, clients, calls int) {
	address := strings.TrimSuffix(strings.TrimPrefix(g.url, "http://"), "/mcp")
	body := call(1, "safe", "")
	request := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for range calls {
				if _, err := conn.Write(request); err != nil {
					b.Error(err)
					return
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("%v %v", resp, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
}
