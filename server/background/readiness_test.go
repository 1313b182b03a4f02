package background

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// disk is a store whose writes fail or hang on demand.
type disk struct {
	err    atomic.Pointer[error]
	frozen atomic.Pointer[chan struct{}]
	writes atomic.Int64
}

func (d *disk) SetWatermark(context.Context, string, time.Time) error {
	d.writes.Add(1)
	if c := d.frozen.Load(); c != nil {
		<-*c // a write to a disk that hangs ignores its context
	}
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

func start(t *testing.T, d *disk) (*Prober, *bytes.Buffer) {
	log := &bytes.Buffer{}
	p := New(ReadinessOptions{Store: d, Logger: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return p, log
}

// A store that hangs is detected within 20 seconds, with one write in flight, and so
// is its recovery.
func TestAFrozenStoreIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		p, log := start(t, d)
		<-time.After(time.Minute)
		if err := p.Err(); err != nil || d.writes.Load() < 10 {
			t.Fatalf("%v after %d writes", err, d.writes.Load())
		}
		thaw := make(chan struct{})
		d.frozen.Store(&thaw)
		before := d.writes.Load()
		<-time.After(20 * time.Second)
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), "has not ended after 8s") {
			t.Fatalf("after 20 seconds: %v", err)
		}
		<-time.After(10 * time.Minute)
		if got := d.writes.Load() - before; got != 1 {
			t.Errorf("%d writes while one hangs", got)
		}
		d.frozen.Store(nil)
		close(thaw)
		synctest.Wait()
		if err := p.Err(); err != nil {
			t.Errorf("after the thaw: %v", err)
		}
		if got := strings.Count(log.String(), "level=ERROR"); got != 1 || !strings.Contains(log.String(), "takes writes again") {
			t.Errorf("the log is %s", log)
		}
	})
}

// After a failed write its error is reported until a write succeeds.
func TestAFailedWriteIsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		full := errors.New("no space left on device")
		d.err.Store(&full)
		p, log := start(t, d)
		<-time.After(time.Minute)
		if err := p.Err(); !errors.Is(err, full) {
			t.Fatalf("%v", err)
		}
		if got := strings.Count(log.String(), "no space left"); got != 1 {
			t.Errorf("told %d times: %s", got, log)
		}
		d.err.Store(nil)
		<-time.After(defaultInterval)
		synctest.Wait()
		if err := p.Err(); err != nil {
			t.Errorf("after a write that worked: %v", err)
		}
	})
}
