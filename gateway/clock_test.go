package gateway

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// When the gateway's clock jumps, the log has one WARN with both times for each jump, which is counted
// for a metric, and nothing while the clock runs, drifts or is corrected by a second.
func TestAJumpOfTheClockIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		var off atomic.Int64
		var jumps atomic.Uint64
		ctx, cancel := context.WithCancel(t.Context())
		go watchClock(ctx, func() time.Time { return time.Now().Add(time.Duration(off.Load())) }, &jumps, slog.New(slog.NewTextHandler(&log, nil)))
		counted := uint64(0)
		for _, row := range []struct {
			name string
			off  time.Duration
			step string // in the line; empty: no line
		}{
			{"runs", 0, ""},
			{"corrected by a second", time.Second, ""},
			{"two hours ahead", 2 * time.Hour, "step=1h59m59s"},
			{"stays there", 2 * time.Hour, ""},
			{"set back", -time.Hour, "step=-3h0m0s"},
		} {
			synctest.Wait()
			log.take()
			off.Store(int64(row.off))
			<-time.After(3 * clockInterval)
			synctest.Wait()
			want, before := 0, counted
			counted = jumps.Load()
			if row.step != "" {
				want = 1
			}
			if counted-before != uint64(want) {
				t.Errorf("%s: %d jumps counted, want %d", row.name, counted-before, want)
			}
			text := log.take()
			if n := strings.Count(text, "level=WARN"); n != want || !strings.Contains(text, row.step) || want == 1 && !strings.Contains(text, "expected=2") {
				t.Errorf("%s: %d warnings, want %d with %q: %s", row.name, n, want, row.step, text)
			}
		}
		cancel()
		synctest.Wait()
	})
}

// lines is a log that the test reads while the program writes it.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// take returns what was written since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = nil
	return text
}
