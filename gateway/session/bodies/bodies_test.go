package bodies

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"svc/gateway/auth"
	"svc/gateway/mcp"
)

// callerOf is a caller with a key, or one who is not identified yet.
func callerOf(name string, known bool) Caller {
	return Caller{Who: &auth.Principal{Kind: auth.KindKey, Value: name}, Known: known}
}

func newBounded(limit int64) *Counter {
	b := New()
	b.SetLimit(limit)
	return b
}

// take returns as many shares as possible that hold size bytes each, at most 10,000.
func take(b *Counter, size int, who func(i int) Caller) (n int, end func()) {
	var all []*Share
	for n < 10_000 {
		s := new(Share)
		s.Begin(b, who(n))
		all = append(all, s)
		if s.Count(size) != nil {
			break
		}
		n++
	}
	return n, func() {
		for _, s := range all {
			s.End()
		}
	}
}

// One caller holds at most a quarter of the bytes, all callers together all of them, unidentified
// callers a sixteenth, and an address without authentication a half. Released bytes can be used
// again.
func TestSharesOfTheBytesOfBodies(t *testing.T) {
	const limit, size = 512 << 20, 1 << 20
	b := newBounded(limit)
	alice := func(int) Caller { return callerOf("alice", true) }
	open := func(int) Caller {
		return Caller{Who: &auth.Principal{Kind: auth.KindIP, Value: "192.0.2.1"}, Known: true, Open: true}
	}
	for range 2 {
		for name, tt := range map[string]struct {
			who  func(int) Caller
			want int
		}{
			"one caller":                     {alice, 128},
			"many callers":                   {func(i int) Caller { return callerOf(strings.Repeat("x", i%100), true) }, 512},
			"unidentified callers":           {func(i int) Caller { return callerOf(strings.Repeat("x", i%100), false) }, 32},
			"an address, authentication off": {open, 256},
		} {
			n, end := take(b, size, tt.who)
			if n != tt.want {
				t.Errorf("%s: %d requests of 1 MiB, want %d", name, n, tt.want)
			}
			end()
		}
	}
	if n := b.total.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	for row := range b.callers {
		for i := range b.callers[row] {
			if n := b.callers[row][i].Load(); n != 0 {
				t.Fatalf("%d bytes of a caller are left", n)
			}
		}
	}
}

// With the smallest limit that can be configured a request and a response of the largest size
// fit, whoever sends them, and a caller at its bound leaves space for others.
func TestOneRequestAlwaysFits(t *testing.T) {
	b := newBounded(MinLimit)
	for _, on := range []bool{true, false} {
		alice := callerOf("alice", true)
		alice.Open = !on
		var s Share
		s.Begin(b, alice)
		for i := 0; i < 2*mcp.MaxBody; i += 1000 {
			if err := s.Count(1000); err != nil {
				t.Fatalf("authentication %v: after %d bytes: %v", on, i, err)
			}
		}
		if n, end := take(b, 16<<10, func(int) Caller { return callerOf("bob", true) }); n < 1000 {
			t.Errorf("%d requests of another caller", n)
		} else {
			end()
		}
		s.End()
	}
	var s Share
	s.Begin(b, callerOf("", false))
	if err := s.Count(MaxPrefix); err != nil {
		t.Error("the part that is read of a refused request does not fit")
	}
}

func TestBytesOfBodiesAreCountedByManyAtOnce(t *testing.T) {
	b := newBounded(MinLimit)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 1000 {
				var s Share
				s.Begin(b, callerOf(strings.Repeat("x", i%3), true))
				if err := s.Count(100 << 10); err != nil && !errors.Is(err, ErrOverloaded) {
					t.Error(err)
				}
				s.Keep(10)
				_ = s.Count(50 << 10)
				s.End()
			}
		})
	}
	wg.Wait()
	if n := b.total.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// The buffer does not grow to an announced length before the bytes have arrived, and does not
// exceed it.
func TestBuffersGrowWithWhatArrives(t *testing.T) {
	for _, tt := range []struct{ have, length, least, most int }{
		{0, 16 << 20, 4 << 10, 4 << 10}, {64 << 10, 16 << 20, 128 << 10, 128 << 10},
		{64 << 10, 65 << 10, 65<<10 + 512, 65<<10 + 512}, {8 << 20, 16 << 20, 16 << 20, 16 << 20}, {16<<20 - 100, 16 << 20, 16<<20 + 512, 16<<20 + 512},
		{64 << 10, 10, 128 << 10, 128 << 10}, // more bytes arrived than were announced
	} {
		got := cap(grow(make([]byte, tt.have), int64(tt.length)))
		if got < tt.least || got > tt.most {
			t.Errorf("%d bytes of %d: %d, want %d to %d", tt.have, tt.length, got, tt.least, tt.most)
		}
	}
}

// The total cost of counting for a small call.
func BenchmarkShareOfASmallCall(b *testing.B) {
	all := newBounded(MinLimit)
	alice := callerOf("alice", true)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var s Share
			s.Begin(all, alice)
			if s.Count(86) != nil || s.Count(48) != nil {
				b.Fail()
			}
			s.End()
		}
	})
}
