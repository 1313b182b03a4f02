//go:build unix

package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"svc/gateway/redis/redistest"
)

func open(t *testing.T, url string) *Windows {
	t.Helper()
	w, err := Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// Processes that share a window together accept exactly its limit.
func TestAWindowIsExactOverProcesses(t *testing.T) {
	url := redistest.Start(t).URL()
	processes := []*Windows{open(t, url), open(t, url), open(t, url)}
	const limit = 50
	var accepted, failed atomic.Int64
	var wg sync.WaitGroup
	for _, w := range processes {
		for range 4 {
			wg.Go(func() {
				for range 20 {
					switch taken, count, _, err := w.Take(t.Context(), "api:t1", limit, time.Hour); {
					case err != nil:
						failed.Add(1)
					case taken:
						accepted.Add(1)
					case count != limit:
						t.Errorf("refused with %d in the window", count)
					}
				}
			})
		}
	}
	wg.Wait()
	if failed.Load() == 0 && accepted.Load() != limit || accepted.Load() > limit {
		t.Errorf("%d accepted, %d calls failed, limit %d", accepted.Load(), failed.Load(), limit)
	}
	if taken, count, _, err := processes[0].Take(t.Context(), "api:t2", limit, time.Hour); !taken || count != 1 || err != nil {
		t.Errorf("another tenant: %v, %d, %v", taken, count, err)
	}
}

// A request that is as old as the window is long has left the window, and rejected
// requests were never in it.
func TestAWindowSlides(t *testing.T) {
	s := redistest.Start(t)
	w := open(t, s.URL())
	take := func() (bool, int, time.Duration) {
		t.Helper()
		taken, count, oldest, err := w.Take(t.Context(), "x", 2, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return taken, count, oldest
	}
	// The test sets the times of two requests back instead of waiting.
	at := func(ages ...time.Duration) {
		t.Helper()
		for _, cmd := range [][]any{{"DEL", prefix + "{x}"}} {
			if _, err := s.Do(cmd...); err != nil {
				t.Fatal(err)
			}
		}
		for _, age := range ages {
			if _, err := s.Do("RPUSH", prefix+"{x}", time.Now().Add(-age).UnixMicro()); err != nil {
				t.Fatal(err)
			}
		}
	}
	at(59*time.Minute, 30*time.Minute)
	for range 3 {
		if taken, count, oldest := take(); taken || count != 2 || oldest < 59*time.Minute || oldest > time.Hour {
			t.Errorf("full: %v, %d, oldest %s", taken, count, oldest)
		}
	}
	at(time.Hour, 30*time.Minute)
	if taken, count, oldest := take(); !taken || count != 2 || oldest < 30*time.Minute {
		t.Errorf("the first has left: %v, %d, oldest %s", taken, count, oldest)
	}
	at(-30*time.Minute, -40*time.Minute) // the clock stepped back by 40 minutes
	if taken, count, oldest := take(); taken || count != 2 || oldest < 10*time.Minute || oldest > 11*time.Minute {
		t.Errorf("after a step back: %v, %d, oldest %s", taken, count, oldest)
	}
}

// While Redis is frozen only one call a second waits for it; when it runs again, it
// counts requests.
func TestAFrozenRedisIsLeftAlone(t *testing.T) {
	s := redistest.Start(t)
	w := open(t, s.URL())
	if _, _, _, err := w.Take(t.Context(), "x", 9, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	if _, _, _, err := w.Take(t.Context(), "x", 9, time.Hour); err == nil || !w.Failing() || w.Failures() != 1 {
		t.Fatalf("frozen: %v", err)
	}
	if _, _, _, err := w.Take(t.Context(), "x", 9, time.Hour); !errors.Is(err, errLeftAlone) {
		t.Errorf("right after: %v", err)
	}
	s.Resume()
	for w.Failing() {
		_, _, _, _ = w.Take(t.Context(), "x", 9, time.Hour)
		if t.Context().Err() != nil {
			t.Fatal("it is never asked again")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := w.Take(gone, "x", 9, time.Hour); err == nil || w.Failing() {
		t.Errorf("a client that left counts as a failure: %v", err)
	}
}

// stopped is a hook that blocks the first call beyond its timeout, as if the process were stopped.
type stopped struct{ calls atomic.Int64 }

func (s *stopped) DialHook(next goredis.DialHook) goredis.DialHook { return next }
func (s *stopped) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}
func (s *stopped) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if s.calls.Add(1) == 1 {
			<-time.After(pausedFor + timeout)
			cmd.SetErr(ctx.Err())
			return ctx.Err()
		}
		return next(ctx, cmd)
	}
}

// After a call during which the process was stopped the call is repeated, and does not count as a failure.
func TestAPauseIsNoFailure(t *testing.T) {
	w := open(t, redistest.Start(t).URL())
	w.client.AddHook(&stopped{})
	if taken, count, _, err := w.Take(t.Context(), "x", 9, time.Hour); err != nil || !taken || count != 1 || w.Failures() != 0 {
		t.Errorf("after a pause: %v, %d, %v, %d failures", taken, count, err, w.Failures())
	}
}

// Several hosts are a cluster, whose nodes have separate windows.
func TestWindowsInACluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	w := open(t, c.URL())
	for _, name := range []string{"api:a", "api:b", "api:c", "ingest:a", "ingest:b"} {
		for i := range 3 {
			taken, count, _, err := w.Take(t.Context(), name, 2, time.Hour)
			if err != nil || taken != (i < 2) || count != min(i+1, 2) {
				t.Errorf("%s, request %d: %v, %d, %v", name, i, taken, count, err)
			}
		}
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h": "h:6379", "redis://u:p%40@h:1/2": "h:1", "rediss://h1,h2:7": "h1:6379 h2:7", "redis://[::1]:5": "[::1]:5",
	} {
		if o, err := parse(text); err != nil || strings.Join(o.Addrs, " ") != want || (o.TLSConfig != nil) != strings.HasPrefix(text, "rediss") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "h:6379", "http://h", "redis://", "redis://h,,g", "redis://h:x", "redis://h:99999", "redis://u:s3cret@h/x", "redis://u:s3cret@h/-1", "redis://h,g/1", "redis://u:s3cret@h?x=1", "redis://u:s3%zzcret@h", "redis://" + strings.Repeat("h,", 64) + "h"} {
		if _, err := parse(text); err == nil || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
