package bodies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
)

// pass waits for a time of the test's clock.
func pass(d time.Duration) { <-time.After(d) }

// upload is a body of size bytes, of which fast arrive at once and then chunk at a time, after a
// pause, until ctx ends.
type upload struct {
	size, fast, chunk int
	pause             time.Duration
	ctx               context.Context
}

func (u *upload) Read(p []byte) (int, error) {
	if u.size == 0 {
		return 0, io.EOF
	}
	if n := min(len(p), u.fast); n > 0 {
		u.fast, u.size = u.fast-n, u.size-n
		return n, nil
	}
	select {
	case <-time.After(u.pause):
	case <-u.ctx.Done():
		return 0, u.ctx.Err()
	}
	n := min(len(p), u.chunk, u.size)
	u.size -= n
	return n, nil
}

// send uploads a body for a caller, holds it for a time as a call at an upstream does, and gives
// it back.
func send(ctx context.Context, b *Counter, who Caller, u *upload, hold time.Duration) error {
	var s Share
	s.Begin(b, who)
	defer s.End()
	u.ctx = ctx
	_, err := ReadAll(ctx, nil, u, mcp.MaxBody, int64(u.size), &s)
	if err == nil {
		pass(hold)
	}
	return err
}

// drained is called at the end of a test, when all shares have ended.
func drained(t *testing.T, b *Counter) {
	t.Helper()
	synctest.Wait()
	b.admission.mu.Lock()
	defer b.admission.mu.Unlock()
	if n, waiting := b.Held(), len(b.admission.queue); n != 0 || waiting != 0 || b.admission.waiting.Load() != 0 {
		t.Errorf("%d bytes are held, %d wait", n, waiting)
	}
}

// Uploads at once whose sum exceeds the limit are served one after another, of one caller and of
// ten: what does not fit waits in order of arrival, and is not refused while the others make way
// within a second.
func TestUploadsAtOncePastTheLimitAreServedOneAfterAnother(t *testing.T) {
	for _, callers := range []int{1, 10} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBounded(MinLimit)
				var order []int
				var mu sync.Mutex
				for i := range 10 {
					go func() {
						who := callerOf(fmt.Sprint("caller", i%callers), true)
						if err := send(t.Context(), b, who, &upload{size: 15 << 20, chunk: 64 << 10, pause: 100 * time.Microsecond}, 50*time.Millisecond); err != nil {
							t.Errorf("upload %d: %v", i, err)
						}
						mu.Lock()
						defer mu.Unlock()
						order = append(order, i)
					}()
					synctest.Wait()
				}
				pass(time.Minute)
				synctest.Wait()
				for i := range order {
					if callers == 1 && order[i] != i {
						t.Errorf("served in the order %v", order)
						break
					}
				}
				drained(t, b)
			})
		})
	}
}

// An upload that is slower than 16 KiB a second holds no others up: what it has reserved is given
// back within a second, and it goes on with what it has. One that keeps the rate keeps its
// reservation.
func TestASlowUploadGivesItsReservationBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slow  upload
		holds bool // after a second
	}{
		{"nothing arrives", upload{size: 16 << 20, chunk: 1, pause: time.Hour}, false},
		{"8 KiB a second", upload{size: 16 << 20, chunk: 8 << 10, pause: time.Second}, false},
		{"stops after a fast start", upload{size: 16 << 20, fast: 1 << 20, chunk: 1, pause: time.Hour}, false},
		{"20 KiB a second", upload{size: 16 << 20, chunk: 4 << 10, pause: 200 * time.Millisecond}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBounded(MinLimit)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				slow := tt.slow
				slow.ctx = ctx
				ended := make(chan struct{})
				var s Share
				s.Begin(b, callerOf("slow", true))
				go func() {
					defer close(ended)
					if _, err := ReadAll(ctx, nil, &slow, mcp.MaxBody, int64(slow.size), &s); !errors.Is(err, context.Canceled) {
						t.Errorf("the slow upload: %v", err)
					}
				}()
				synctest.Wait()
				if n := b.Held(); n < int64(tt.slow.size) {
					t.Fatalf("%d bytes are reserved of %d", n, tt.slow.size)
				}
				pass(time.Second + time.Millisecond)
				if got := b.Held() >= int64(tt.slow.size); got != tt.holds {
					t.Errorf("after a second %d bytes are counted", b.Held())
				}
				cancel()
				<-ended
				s.End()
				drained(t, b)
			})
		})
	}
}

// Slow uploads, also of several callers that send more and more of them up to the total bound,
// hold up no other caller for more than a second.
func TestSlowUploadsHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded(MinLimit)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 100 {
			go func() {
				_ = send(ctx, b, callerOf(fmt.Sprint("slow", i%5), true), &upload{size: 12 << 20, chunk: 1, pause: time.Minute}, 0)
			}()
			synctest.Wait()
		}
		began := time.Now()
		if err := send(t.Context(), b, callerOf("quick", true), &upload{size: 16 << 20, chunk: 64 << 10, pause: 0}, 0); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		// Bodies that are counted as they arrive have room beside full reservations.
		var s Share
		s.Begin(b, callerOf("small", true))
		if err := s.Count(60 << 10); err != nil {
			t.Errorf("a small body: %v", err)
		}
		s.End()
		cancel()
		drained(t, b)
	})
}

// Slow bodies without a reservation, short ones or of unknown length, take the total bound with
// several callers, but leave room for small calls and their responses.
func TestSlowBodiesLeaveRoomForSmallCalls(t *testing.T) {
	for name, tt := range map[string]struct {
		size   int
		length int64
	}{"short": {60 << 10, 64 << 10}, "of unknown length": {8 << 20, -1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBounded(MinLimit)
				ctx, cancel := context.WithCancel(t.Context())
				refused := 0
				for i := range 8 * MinLimit / 4 / tt.size {
					go func() {
						var s Share
						s.Begin(b, callerOf(fmt.Sprint("slow", i%8), true))
						defer s.End()
						slow := &upload{size: mcp.MaxBody, fast: tt.size, chunk: 1, pause: time.Hour, ctx: ctx}
						if _, err := ReadAll(ctx, nil, slow, mcp.MaxBody, tt.length, &s); errors.Is(err, ErrOverloaded) {
							refused++
						}
					}()
					synctest.Wait()
				}
				if refused == 0 || b.Held() < MinLimit*7/8 {
					t.Fatalf("%d are refused, %d bytes are held: the bound is not reached", refused, b.Held())
				}
				var s Share
				s.Begin(b, callerOf("small", true))
				call := &upload{size: bodyGranule, fast: bodyGranule, ctx: ctx}
				if _, err := ReadAll(ctx, nil, call, mcp.MaxBody, bodyGranule, &s); err != nil {
					t.Errorf("a small call: %v", err)
				}
				if err := s.Count(1 << 20); err != nil {
					t.Errorf("its response: %v", err)
				}
				s.End()
				cancel()
				drained(t, b)
			})
		})
	}
}

// What does not fit within a second is refused, and what can never fit at once. A client that has
// gone leaves the queue.
func TestAnUploadWaitsForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded(MinLimit)
		go func() {
			if err := send(t.Context(), b, callerOf("a", true), &upload{size: 16 << 20, chunk: 64 << 10, pause: 0}, 3*time.Second); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		began := time.Now()
		if err := send(t.Context(), b, callerOf("a", true), &upload{size: 16 << 20, chunk: 64 << 10, pause: 0}, 0); !errors.Is(err, ErrOverloaded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		gone, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		began = time.Now()
		if err := send(gone, b, callerOf("a", true), &upload{size: 16 << 20, chunk: 64 << 10, pause: 0}, 0); !errors.Is(err, ErrOverloaded) || time.Since(began) > 200*time.Millisecond {
			t.Errorf("the client is gone: %v after %v", err, time.Since(began))
		}
		b.SetLimit(8 << 20)
		began = time.Now()
		if err := send(t.Context(), b, callerOf("b", true), &upload{size: 16 << 20, chunk: 64 << 10, pause: 0}, 0); !errors.Is(err, ErrOverloaded) || time.Since(began) != 0 {
			t.Errorf("never fits: %v after %v", err, time.Since(began))
		}
		pass(time.Minute)
		drained(t, b)
	})
}

// The queue is bounded, in all and for one caller, and its members are admitted when others end.
func TestTheQueueOfUploadsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded(MinLimit)
		var refused, served atomic.Int32
		start := func(name string, n int) {
			for range n {
				go func() {
					if send(t.Context(), b, callerOf(name, true), &upload{size: 16 << 20, chunk: 16 << 20, pause: 0}, time.Hour) != nil {
						refused.Add(1)
					} else {
						served.Add(1)
					}
				}()
				synctest.Wait()
			}
		}
		start("a", 2*maxWaitingCaller)
		if n := refused.Load(); n != maxWaitingCaller-1 {
			t.Errorf("%d of one caller are refused at once", n)
		}
		for i := range 40 {
			start(fmt.Sprint("others", i), maxWaitingCaller)
		}
		if n := b.admission.waiting.Load(); n != maxWaiting {
			t.Errorf("%d wait", n)
		}
		pass(2 * time.Hour)
		synctest.Wait()
		if served.Load() != 3 { // 48 MiB of the 56 that can be reserved
			t.Errorf("%d were served", served.Load())
		}
		drained(t, b)
	})
}

// Uploads of many callers, some slow, never take more than the limit.
func TestReservationsKeepTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded(MinLimit)
		for i := range 300 {
			go func() {
				pass(time.Duration(i%7) * 100 * time.Millisecond)
				u := &upload{size: (100 << 10) + i*50_000, chunk: 1 << (10 + i%8), pause: time.Duration(i%5) * 100 * time.Microsecond}
				_ = send(t.Context(), b, callerOf(fmt.Sprint("c", i%9), i%10 > 0), u, time.Duration(i%4)*100*time.Millisecond)
			}()
		}
		for range 5000 {
			pass(time.Millisecond)
			if n := b.Held(); n > MinLimit || n < 0 {
				t.Fatalf("%d bytes are counted", n)
			}
		}
		pass(time.Hour)
		drained(t, b)
	})
}
