package request

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// syncWriter is a buffer that is safe for concurrent use.
type syncWriter struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *syncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *syncWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// linesOf are the log lines about failures of upstreams.
func linesOf(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, `msg="upstream `) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A second reason of the same class is logged at once, and not hidden by the repeats of the first;
// descriptions that differ each time are bounded.
func TestASecondReasonIsLoggedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncWriter
		f := NewFailures(slog.New(slog.NewTextHandler(&out, nil)))
		defer f.Close()
		for range 2 {
			for _, cause := range []string{"answered status 502", "answered status 404"} {
				f.Report(&Failure{Upstream: "main", Code: "status", Cause: cause})
			}
		}
		synctest.Wait()
		if lines := linesOf(out.String()); len(lines) != 2 || !strings.Contains(lines[0], "502") || !strings.Contains(lines[1], "404") {
			t.Errorf("%q, want one line for each of two reasons", lines)
		}
		for i := range 100 {
			f.Report(&Failure{Upstream: "other", Code: "reset", Cause: fmt.Sprintf("from port %d", i)})
		}
		synctest.Wait()
		if lines := linesOf(out.String()); len(lines) != 2+maxNamed {
			t.Errorf("%d lines for descriptions that differ each time", len(lines)-2)
		}
	})
}

// Repeats are counted, reported once an interval, and removed when they end.
func TestRepeatedFailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncWriter
		f := NewFailures(slog.New(slog.NewTextHandler(&out, nil)))
		defer f.Close()
		seen := 0
		read := func() []string {
			synctest.Wait()
			text := out.String()
			defer func() { seen = len(text) }()
			return linesOf(text[seen:])
		}
		fail := func(id string) {
			f.Report(&Failure{Upstream: "main", Code: "dns", Cause: "no such host", RequestID: id})
		}
		for i := range 5 {
			fail(fmt.Sprint("first-", i))
		}
		if got := read(); len(got) != 1 || !strings.Contains(got[0], "request_id=first-0") {
			t.Fatalf("the first failures: %q", got)
		}
		f.Report(&Failure{Upstream: "main", Code: "tls"})
		f.Report(&Failure{Upstream: "other", Code: "dns"})
		if got := read(); len(got) != 2 {
			t.Errorf("another cause and another upstream: %q", got)
		}
		<-time.After(time.Minute - time.Nanosecond)
		if got := read(); len(got) != 0 {
			t.Errorf("within a minute: %q", got)
		}
		<-time.After(time.Nanosecond)
		if got := read(); len(got) != 1 || !strings.Contains(got[0], "repeats=4") || !strings.Contains(got[0], "request_id=first-4") {
			t.Errorf("after an interval: %q", got)
		}
		fail("second")
		if got := read(); len(got) != 0 {
			t.Errorf("a repeated failure is logged at once: %q", got)
		}
		<-time.After(2 * failuresInterval)
		if got := read(); len(got) != 1 || !strings.Contains(got[0], "repeats=1") {
			t.Errorf("after two more intervals: %q", got)
		}
		fail("third")
		if got := read(); len(got) != 1 || !strings.Contains(got[0], "upstream failed") {
			t.Errorf("after a quiet interval: %q", got)
		}
	})
}

// blockedHandler is a log handler that blocks.
type blockedHandler struct {
	slog.Handler
	release chan struct{}
}

func (h blockedHandler) Handle(context.Context, slog.Record) error {
	<-h.release
	return nil
}

// A blocked log delays neither a request nor Close.
func TestASlowLogDoesNotHoldUpRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := NewFailures(slog.New(blockedHandler{slog.NewTextHandler(io.Discard, nil), release}))
		began := time.Now()
		for i := range 2 * maxCauses {
			f.Report(&Failure{Upstream: "main", Code: fmt.Sprint("status_", i), Cause: "answered"})
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("reports waited for %s", took)
		}
		if n := len(f.seen); n > maxCauses {
			t.Errorf("%d causes are remembered", n)
		}
		f.Close()
		if took := time.Since(began); took != flushTimeout {
			t.Errorf("close waited for %s", took)
		}
		close(release)
	})
}

// Callers that are not authenticated are named by their address up to a bound, and the others are
// left out: anybody can cause such lines.
func TestStrangersInTheLogAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncWriter
		f := NewStrangers(slog.New(slog.NewTextHandler(&out, nil)))
		defer f.Close()
		for range 3 {
			for i := range 10 * maxStrangers {
				f.Report(&Failure{Address: fmt.Sprintf("192.0.2.%d", i), Code: "unauthorized", Cause: "wrong"})
			}
		}
		synctest.Wait()
		if n := strings.Count(out.String(), "caller is not authenticated"); n != maxStrangers {
			t.Errorf("%d lines", n)
		}
	})
}
