package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/store/api"
)

// TestReportsFit: whatever the upstreams are named, the control plane accepts the report, with those that fail.
func TestReportsFit(t *testing.T) {
	for name, long := range map[string]string{
		"many": "u", "long": strings.Repeat("u", 120), "escaped": strings.Repeat("<", 120), "bidi": "\u202e\u2066" + strings.Repeat("\u200f", 30),
		"control": "a\x1b[2J\x00\n", "no UTF-8": "a\xff\xfe", "tags": "\U000e0041\U000e0042",
	} {
		r := api.GatewayReport{Instance: strings.Repeat("0", 32), Seq: 1, StartedAt: time.Now(), State: api.GatewayRunning, Version: shown(long), RestartPending: []string{shown(long)}}
		for i := range 300 {
			r.Upstreams = append(r.Upstreams, api.GatewayUpstream{Name: shown(fmt.Sprint(long, i)), State: map[bool]string{true: "failing", false: "ok"}[i >= 290]})
		}
		r.Upstreams = fitting(r.Upstreams)
		body, err := json.Marshal(r)
		if err != nil || len(body) > api.MaxGatewayReport {
			t.Errorf("%s: %d bytes, %v", name, len(body), err)
		}
		var read api.GatewayReport
		if err := json.Unmarshal(body, &read); err != nil || len(read.Validate()) > 0 {
			t.Errorf("%s: %v, %v", name, err, read.Validate())
		}
		failing := 0
		for _, u := range read.Upstreams {
			if u.State == "failing" {
				failing++
			}
		}
		if failing != 10 {
			t.Errorf("%s: %d of %d upstreams fail, want 10", name, failing, len(read.Upstreams))
		}
	}
}

// failure is an error with a status and a pause.
type failure struct {
	status int
	after  time.Duration
}

func (f failure) Error() string { return fmt.Sprint("status ", f.status) }

// TestReportsWhileTheControlPlaneFails: the log names each kind of failure, seldom, and no answer silences the
// gateway for long or delays its end.
func TestReportsWhileTheControlPlaneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of what follows
		var text bytes.Buffer
		var answer func(ctx context.Context) error
		sent := 0
		answers := func(with func(ctx context.Context) error) {
			mu.Lock()
			defer mu.Unlock()
			answer = with
		}
		f := &fleetReporter{
			name: "g", id: strings.Repeat("0", 32), warned: map[int]time.Time{}, log: slog.New(slog.NewTextHandler(locked{&mu, &text}, nil)),
			send: func(ctx context.Context, _ string, _ []byte, _ string) error {
				mu.Lock()
				sent++
				say := answer
				mu.Unlock()
				return say(ctx)
			},
			state: func() api.GatewayReport { return api.GatewayReport{State: api.GatewayRunning} },
			sign:  func([]byte) (string, error) { return "", nil },
			status: func(err error) (int, time.Duration) {
				var f failure
				errors.As(err, &f)
				return f.status, f.after
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		turn := 0
		answers(func(context.Context) error { // every second report fails
			if turn++; turn%2 == 0 {
				return nil
			}
			return failure{status: 503}
		})
		go func() { f.Run(ctx); close(ended) }()
		after := func(d time.Duration) (n, lines int) {
			seen := func() (int, int) {
				mu.Lock()
				defer mu.Unlock()
				return sent, strings.Count(text.String(), "\n")
			}
			from, was := seen()
			<-time.After(d)
			synctest.Wait()
			n, lines = seen()
			return n - from, lines - was
		}
		if n, lines := after(time.Hour); n < 120 || lines > 14 {
			t.Errorf("flapping: %d reports, %d lines of the log", n, lines)
		}
		answers(func(context.Context) error { return failure{status: 403} })
		if n, lines := after(time.Minute); n > 6 || lines != 1 || !strings.Contains(text.String(), "svc audit heads accept") {
			t.Errorf("another failure: %d reports, %d lines: %s", n, lines, text.String())
		}
		answers(func(context.Context) error { return failure{429, 24 * time.Hour} })
		if n, _ := after(10 * time.Minute); n < 9 {
			t.Errorf("%d reports in 10 minutes", n)
		}
		answers(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		after(2 * time.Minute)
		stop := time.Now()
		cancel()
		<-ended
		if d := time.Since(stop); d > lastReportTimeout {
			t.Errorf("the end took %v", d)
		}
	})
}

// locked is a writer that several goroutines use.
type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
