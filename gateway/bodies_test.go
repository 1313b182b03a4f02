package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/mcp"
)

// callerOf is an exchange as far as its share of the bytes needs it.
func callerOf(b *bodies, name string, identified bool) *exchange {
	ex := &exchange{g: &Gateway{bodies: b}, live: &live{keyring: new(auth.Keyring)}}
	ex.who = auth.Principal{Kind: auth.KindKey, Value: name}
	if identified {
		ex.key = new(auth.Key)
	}
	return ex
}

func newBounded(limit int64) *bodies {
	b := newBodies()
	b.limit.Store(limit)
	return b
}

// take has as many requests as possible hold size bytes each, at most 10,000.
func take(b *bodies, size int, who func(i int) *exchange) (n int, end func()) {
	var all []*share
	for n < 10_000 {
		s := new(share)
		s.begin(who(n))
		all = append(all, s)
		if s.Count(size) != nil {
			break
		}
		n++
	}
	return n, func() {
		for _, s := range all {
			s.end()
		}
	}
}

// One caller holds at most a quarter of the bytes, all callers together all of them,
// those who are not known yet a sixteenth, and an address without authentication a
// half. What is given back can be taken again.
func TestSharesOfTheBytesOfBodies(t *testing.T) {
	const limit, size = 512 << 20, 1 << 20
	b := newBounded(limit)
	alice := func(int) *exchange { return callerOf(b, "alice", true) }
	open := func(int) *exchange {
		ex := callerOf(b, "192.0.2.1", false)
		ex.live.keyring = nil
		return ex
	}
	for range 2 {
		for name, tt := range map[string]struct {
			who  func(int) *exchange
			want int
		}{
			"one caller":                     {alice, 128},
			"many callers":                   {func(i int) *exchange { return callerOf(b, strings.Repeat("x", i%100), true) }, 512},
			"callers who are not known":      {func(i int) *exchange { return callerOf(b, strings.Repeat("x", i%100), false) }, 32},
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

// With the least that can be configured a request and an answer of the largest size
// fit, whoever sends them; and a caller who holds all it may leaves room for others.
func TestOneRequestAlwaysFits(t *testing.T) {
	b := newBounded(config.MinBodyBytes)
	for _, on := range []bool{true, false} {
		ex := callerOf(b, "alice", true)
		if !on {
			ex.live.keyring, ex.key = nil, nil
		}
		var s share
		s.begin(ex)
		for i := 0; i < 2*mcp.MaxBody; i += 1000 {
			if err := s.Count(1000); err != nil {
				t.Fatalf("authentication %v: after %d bytes: %v", on, i, err)
			}
		}
		if n, end := take(b, 16<<10, func(int) *exchange { return callerOf(b, "bob", true) }); n < 1000 {
			t.Errorf("%d requests of another caller", n)
		} else {
			end()
		}
		s.end()
	}
	var s share
	s.begin(callerOf(b, "", false))
	if err := s.Count(maxPrefix); err != nil {
		t.Error("what is read of a refused request does not fit")
	}
}

func TestBytesOfBodiesAreCountedByManyAtOnce(t *testing.T) {
	b := newBounded(config.MinBodyBytes)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 1000 {
				var s share
				s.begin(callerOf(b, strings.Repeat("x", i%3), true))
				if err := s.Count(100 << 10); err != nil && !errors.Is(err, errOverloaded) {
					t.Error(err)
				}
				s.keep(10)
				_ = s.Count(50 << 10)
				s.end()
			}
		})
	}
	wg.Wait()
	if n := b.total.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// Past the bound requests are answered 503 overloaded, whether their own body is too
// much, the answer of their upstream, or an event of it.
func TestBodiesBeyondTheBoundAreOverloaded(t *testing.T) {
	large := strings.Repeat("a", 200<<10)
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		switch {
		case strings.Contains(body, "as-json"):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, strings.Replace(result, `[]`, `["`+large+`"]`, 1))
		case strings.Contains(body, "as-event"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+progress+"\n\ndata: "+strings.Replace(result, `[]`, `["`+large+`"]`, 1)+"\n\n")
		default:
			echo(w, body, r)
		}
	})
	r := newRig(t, basic(up.URL))
	r.gateway.bodies.limit.Store(100 << 10)
	argument := func(text string) string { return strings.Replace(call("1", "safe"), "{}", `{"x":"`+text+`"}`, 1) }
	for name, tt := range map[string]struct {
		body   string
		status int
	}{"request": {argument(large), 503}, "answer": {argument("as-json"), 503}, "event": {argument("as-event"), 200}} {
		got := r.post(tt.body)
		want := `"id":1,"error":{"code":-32603,"message":"overloaded"`
		if got.status != tt.status || !strings.Contains(got.body, want) || tt.status == 503 && got.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %v %s", name, got.status, got.header, got.body)
		}
		lines := r.all()
		if line := lines[len(lines)-1]; line["error_kind"] != "overloaded" {
			t.Errorf("%s: line %v", name, line)
		}
		eventually(t, "bytes are left", func() bool { return r.gateway.bodies.total.Load() == 0 })
		if got := r.post(argument("small")); got.status != 200 {
			t.Errorf("behind %s: %d %s", name, got.status, got.body)
		}
	}
	// limits.body_bytes is read with a reload.
	r.edit("\ndefault_upstream", "\nlimits: {body_bytes: 67108864}\ndefault_upstream")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.post(argument(large)); got.status != 200 {
		t.Errorf("behind a reload: %d %s", got.status, got.body)
	}
}

// An announced length is believed no further than bytes have come, and not exceeded.
func TestBuffersGrowWithWhatArrives(t *testing.T) {
	for _, tt := range []struct{ have, length, least, most int }{
		{0, 16 << 20, 4 << 10, 4 << 10}, {64 << 10, 16 << 20, 128 << 10, 128 << 10},
		{64 << 10, 65 << 10, 65<<10 + 512, 65<<10 + 512}, {8 << 20, 16 << 20, 16 << 20, 16 << 20}, {16<<20 - 100, 16 << 20, 16<<20 + 512, 16<<20 + 512},
		{64 << 10, 10, 128 << 10, 128 << 10}, // more came than was announced
	} {
		got := cap(grow(make([]byte, tt.have), int64(tt.length)))
		if got < tt.least || got > tt.most {
			t.Errorf("%d bytes of %d: %d, want %d to %d", tt.have, tt.length, got, tt.least, tt.most)
		}
	}
}

// Loopback and trusted proxies stand for many clients.
func TestConnectionLimit(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, "trusted_proxies: [10.1.0.0/16]\nlimits: {connections_per_address: 7}"+basic(up.URL))
	for addr, want := range map[string]int{"127.0.0.1": 0, "::1": 0, "10.1.2.3": 0, "10.2.0.1": 7, "2001:db8::1": 7} {
		if got := r.gateway.ConnectionLimit(mustAddr(addr)); got != want {
			t.Errorf("%s: %d, want %d", addr, got, want)
		}
	}
}

// What counting costs a small call, in all.
func BenchmarkShareOfASmallCall(b *testing.B) {
	all := newBounded(config.MinBodyBytes)
	ex := callerOf(all, "alice", true)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var s share
			s.begin(ex)
			if s.Count(86) != nil || s.Count(48) != nil {
				b.Fail()
			}
			s.end()
		}
	})
}
