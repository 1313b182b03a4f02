//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// processorTime is the processor time that the process has used so far, its exporters and garbage
// collections included.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// smallCaller returns a function that makes one small tools/call through the handler of a gateway
// with additional configuration, and a function that waits until the spans of the calls are
// exported.
func smallCaller(b *testing.B, more string) (once, settle func()) {
	b.Helper()
	r, once := prepareCall(b, more, call("1", "safe"), nil)
	settle = func() {
		tracer := r.services().Tracer
		if tracer == nil {
			return
		}
		for deadline := time.Now().Add(10 * time.Second); tracer.Stats()[0].Queued > 0; time.Sleep(250 * time.Millisecond) {
			if time.Now().After(deadline) {
				b.Fatal("spans are not exported")
			}
		}
	}
	return once, settle
}

// BenchmarkTelemetryRatio measures the cost of telemetry: the same calls through a gateway
// without it and one with it, alternating, in one process, as processor time of the process,
// exports included. on/off is the ratio. The endpoint of the spans discards them, and its share
// counts as the gateway's too.
func BenchmarkTelemetryRatio(b *testing.B) {
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer sink.Close()
	customer := fmt.Sprintf("customer: {enabled: true, endpoint: %q", sink.URL)
	for _, tt := range []struct{ name, more string }{
		{"metrics", "telemetry: {metrics: {listen: '127.0.0.1:0'}}\n"},
		{"spans", "telemetry: {" + customer + "}}\n"},
		{"spans of one in ten", "telemetry: {" + customer + ", sample_ratio: 0.1}}\n"},
		{"spans and metrics", "telemetry: {metrics: {listen: '127.0.0.1:0'}, " + customer + "}}\n"},
		{"nothing, again", ""}, // the noise of the measurement
	} {
		b.Run(tt.name, func(b *testing.B) {
			var once, settle [2]func()
			once[0], settle[0] = smallCaller(b, "")
			once[1], settle[1] = smallCaller(b, tt.more)
			const round = 50_000 // longer than the second that an exporter may wait
			var used [2]time.Duration
			var allocated [2]uint64
			var rounds int
			for i := range 2 {
				for range round {
					once[i]()
				}
				settle[i]()
			}
			measure := func(i int) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := processorTime(b)
				for range round {
					once[i]()
				}
				settle[i]()
				used[i] += processorTime(b) - began
				runtime.ReadMemStats(&after)
				allocated[i] += after.Mallocs - before.Mallocs
			}
			for b.Loop() {
				measure(rounds % 2)
				measure(1 - rounds%2)
				rounds++
			}
			calls := float64(rounds * round)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(used[0].Microseconds())/calls, "off-µs/call")
			b.ReportMetric(float64(used[1].Microseconds())/calls, "on-µs/call")
			b.ReportMetric(float64(used[1])/float64(used[0]), "on/off")
			b.ReportMetric(float64(allocated[0])/calls, "off-allocs/call")
			b.ReportMetric(float64(allocated[1])/calls, "on-allocs/call")
		})
	}
}
