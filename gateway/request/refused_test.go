package request

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/audit"
)

// file collects summaries instead of an audit file.
type file struct {
	mu    sync.Mutex
	err   error
	lines []audit.Refused
	from  []time.Time
	took  []time.Duration
	tried int
	lost  uint64
	logs  bytes.Buffer
}

func (f *file) write(from time.Time, during time.Duration, s *audit.Refused) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried++
	if f.err != nil {
		return f.err
	}
	f.lines, f.from, f.took = append(f.lines, *s), append(f.from, from), append(f.took, during)
	return nil
}

func (f *file) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// requests returns the number of requests in the summaries.
func (f *file) requests() (n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.lines {
		n += f.lines[i].Requests()
	}
	return n
}

func (f *file) counter() *Counter {
	return NewCounter(Options{Write: f.write, Lost: func(n uint64) { f.lost += n }, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&f.logs, nil))})
}

var (
	one   = netip.MustParseAddr("192.0.2.1")
	two   = netip.MustParseAddr("192.0.2.2")
	six   = netip.MustParseAddr("2001:db8::1")
	other = netip.MustParseAddr("2001:db8::ffff") // in the same /64
)

// refusedPass advances the time in a synctest bubble, and waits for everything that is
// due.
func refusedPass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// send sends n requests now and returns the number of those with a line of their
// own.
func send(c *Counter, client netip.Addr, kind string, n int) (own int) {
	for range n {
		if c.OwnLine(client, kind, time.Now()) {
			own++
		}
	}
	return own
}

// Ten requests per second of a client have lines of their own, and one summary
// contains the others.
func TestTheFirstTenOfAClientHaveTheirOwnLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{}
		c := f.counter()
		began := time.Now()
		if own := send(c, one, "unauthorized", 25); own != 10 {
			t.Errorf("%d of 25 have lines, want 10", own)
		}
		if own := send(c, two, "origin_not_allowed", 3); own != 3 {
			t.Errorf("%d of 3 of another client have lines", own)
		}
		if own := send(c, six, "unauthorized", 6) + send(c, other, "unauthorized", 6); own != 10 {
			t.Errorf("%d of 12 of one /64 have lines, want 10", own)
		}
		refusedPass(999 * time.Millisecond)
		if own := send(c, one, "input_rate_limited", 1); own != 0 {
			t.Error("another line within the second")
		}
		refusedPass(time.Millisecond)
		if len(f.lines) != 1 {
			t.Fatalf("%d summaries", len(f.lines))
		}
		s := &f.lines[0]
		if want := []audit.AddressCount{{Address: "192.0.2.1", Requests: 16}, {Address: "2001:db8::/64", Requests: 2}}; len(s.Addresses) != 2 || s.Addresses[0] != want[0] || s.Addresses[1] != want[1] {
			t.Errorf("addresses %v, want %v", s.Addresses, want)
		}
		counts := map[string]uint64{}
		for _, k := range s.Counts {
			counts[k.ErrorKind] = k.Requests
		}
		if len(counts) != 2 || counts["unauthorized"] != 17 || counts["input_rate_limited"] != 1 {
			t.Errorf("counts %v", counts)
		}
		if !f.from[0].Equal(began) || f.took[0] != time.Second {
			t.Errorf("it begins %v after the first and lasts %v", f.from[0].Sub(began), f.took[0])
		}
		if own := send(c, one, "unauthorized", 11); own != 10 {
			t.Errorf("%d of 11 have lines in the next second", own)
		}
		c.Close(time.Second)
		if len(f.lines) != 2 || f.requests() != 19 || f.lost != 0 {
			t.Errorf("%d summaries of %d requests, %d lost", len(f.lines), f.requests(), f.lost)
		}
	})
}

// In total there are a hundred lines per second for any number of clients, and
// memory is bounded. Distinct clients are counted, and the sixteen with most
// requests named.
func TestManyClientsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{}
		c := f.counter()
		own, sent := 0, 0
		for i := range uint32(3 * maxClients) {
			var b [16]byte
			b[0] = 0x20
			binary.BigEndian.PutUint32(b[4:], i)
			n := 1
			if 200 <= i && i < 220 {
				n = int(i)
			}
			sent += n
			own += send(c, netip.AddrFrom16(b), "unauthorized", n)
		}
		if own != 100 {
			t.Errorf("%d requests have lines of their own", own)
		}
		c.mu.Lock()
		counted, inSecond := len(c.count.clients), len(c.second.clients)
		c.mu.Unlock()
		if counted != maxClients || inSecond > linesInAll {
			t.Errorf("%d and %d clients are remembered", counted, inSecond)
		}
		refusedPass(refusedInterval)
		if len(f.lines) != 1 || f.requests() != uint64(sent-own) {
			t.Fatalf("%d summaries of %d requests, want %d", len(f.lines), f.requests(), sent-own)
		}
		if a := f.lines[0].Addresses; len(a) != 16 || a[0].Requests != 219 || a[15].Requests != 204 {
			t.Errorf("addresses %v", a)
		}
		c.Close(time.Second)
	})
}

// Counts that could not be written are in the next summary, once.
func TestCountsOfASummaryThatFailsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{}
		c := f.counter()
		f.fail(errors.New("disk full"))
		began := time.Now()
		send(c, one, "unauthorized", 30)
		refusedPass(refusedInterval)
		send(c, two, "unauthorized", 15)
		refusedPass(2 * refusedInterval)
		if f.tried != 3 {
			t.Errorf("it was tried %d times in three seconds", f.tried)
		}
		f.fail(nil)
		refusedPass(refusedInterval)
		if len(f.lines) != 1 || f.requests() != 25 || !f.from[0].Equal(began) || f.took[0] != 4*time.Second {
			t.Errorf("%d summaries of %d requests, from %v, over %v", len(f.lines), f.requests(), f.from, f.took)
		}
		if a := f.lines[0].Addresses; len(a) != 2 || a[0].Requests != 20 || a[1].Requests != 5 {
			t.Errorf("addresses %v", a)
		}
		refusedPass(time.Minute)
		c.Close(time.Second)
		if f.tried != 4 {
			t.Errorf("%d summaries without requests", f.tried-4)
		}
	})
}

// Counts that will be in no summary are reported as lost, and logged.
func TestCountsThatCannotBeWrittenAtTheEndAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{}
		c := f.counter()
		f.fail(errors.New("disk full"))
		send(c, one, "unauthorized", 30)
		c.Close(time.Second)
		if f.lost != 20 || !strings.Contains(f.logs.String(), "requests=20 counts=map[unauthorized:20]") {
			t.Errorf("%d are lost, logged:\n%s", f.lost, f.logs.String())
		}
		if own := send(c, one, "unauthorized", 30); own != 30 {
			t.Errorf("%d of 30 were counted after the end", 30-own)
		}
	})
}

// A write that never ends blocks nothing: requests are counted meanwhile, and
// Close waits only for its timeout.
func TestASummaryThatIsNotWrittenHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{}
		frozen := make(chan struct{})
		c := NewCounter(Options{Now: time.Now, Logger: slog.New(slog.NewTextHandler(&f.logs, nil)), Lost: func(n uint64) { f.lost += n },
			Write: func(from time.Time, during time.Duration, s *audit.Refused) error {
				<-frozen
				return f.write(from, during, s)
			}})
		send(c, one, "unauthorized", 30)
		refusedPass(5 * refusedInterval)
		if own := send(c, one, "unauthorized", 17); own != 10 {
			t.Errorf("%d of 17 have lines", own)
		}
		began := time.Now()
		c.Close(3 * time.Second)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("the end took %v", waited)
		}
		if log := f.logs.String(); f.lost != 7 || !strings.Contains(log, "it is not certain") || !strings.Contains(log, "requests=20") || !strings.Contains(log, "requests=7") {
			t.Errorf("%d are lost, logged:\n%s", f.lost, log)
		}
		close(frozen)
		synctest.Wait()
	})
}

// Each request has a line or is in one summary, under concurrency.
func TestEachRequestIsCountedOnce(t *testing.T) {
	f := &file{}
	c := f.counter()
	var own sync.Map
	var wg sync.WaitGroup
	const senders, each = 8, 2000
	for i := range senders {
		wg.Go(func() {
			client := netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 3)})
			own.Store(i, send(c, client, "unauthorized", each))
		})
	}
	wg.Go(func() {
		for i := range 200 {
			if i%2 == 0 {
				f.fail(errors.New("disk full"))
			} else {
				f.fail(nil)
			}
			c.summarize()
		}
		f.fail(nil)
	})
	wg.Wait()
	c.Close(time.Minute)
	lines := 0
	own.Range(func(_, n any) bool { lines += n.(int); return true })
	if total := uint64(lines) + f.requests(); total != senders*each || f.lost != 0 {
		t.Errorf("%d of %d requests are accounted for, %d lost", total, senders*each, f.lost)
	}
}
