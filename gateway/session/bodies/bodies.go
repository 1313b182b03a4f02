package bodies

import (
	"errors"
	"hash/maphash"
	"io"
	"sync/atomic"

	"svc/gateway/auth"
	"svc/gateway/mcp"
)

// ErrOverloaded: the bytes of bodies in memory have reached a bound.
var ErrOverloaded = errors.New("too many bytes of bodies are in memory")

const (
	// bodyGranule is the step by which a share grows, so that a small call changes the counters
	// once.
	bodyGranule = 16 << 10
	// bodyColumns is the width of the table that counts the bytes of callers.
	bodyColumns = 2048
	// largestRequest is the most that one request may hold: its body and a response, each of the
	// largest size.
	largestRequest = 2*mcp.MaxBody + bodyGranule
)

// MinLimit is the smallest value of limits.body_bytes: a request and a response of
// the largest size must fit into the share of one caller.
const MinLimit = 64 << 20

// Counter counts the bytes of request and response bodies in memory against limits.body_bytes and
// the shares of it. It is safe for concurrent use, and takes a lock only for large announced
// bodies. It has one counter for all bytes, one for requests whose caller is not identified yet,
// and for callers a table with two rows of counters (a count-min sketch). A caller is counted in
// one counter of each row, and its estimate is the smaller of the two: never less than the caller
// holds, and more only while other callers share both counters. No caller can cause that, because
// the positions depend on a random seed.
type Counter struct {
	limit        atomic.Int64
	total        atomic.Int64
	unidentified atomic.Int64
	seed         maphash.Seed
	callers      [2][bodyColumns]atomic.Int64
	admission    admission
}

// New returns a counter that admits nothing until SetLimit is called.
func New() *Counter { return &Counter{seed: maphash.MakeSeed()} }

// SetLimit sets the bytes that may be in memory.
func (b *Counter) SetLimit(n int64) { b.limit.Store(n) }

// Held returns the number of bytes that are counted now.
func (b *Counter) Held() int64 { return b.total.Load() }

// Caller identifies whose bytes are counted.
type Caller struct {
	Who *auth.Principal
	// Known is unset until the caller is identified.
	Known bool
	// Open is set when authentication is off, and Who is an address.
	Open bool
}

// Share is the number of bytes that one request, or one source of a stream, holds. It is not safe
// for concurrent use.
type Share struct {
	all   *Counter // nil before Begin
	rows  [2]*atomic.Int64
	most  int64 // the bound of its caller
	held  int64 // bytes
	taken int64 // of the counters: held, rounded up
	// reserved is what the rest of an announced body takes of the counters; nil for none.
	reserved *reservation
	// arriving is set while the body of a request is read.
	arriving bool
}

// Begin sets the caller whose bytes are counted from here on.
func (s *Share) Begin(b *Counter, by Caller) {
	if s.all != nil {
		return
	}
	limit := b.limit.Load()
	s.all = b
	if !by.Known {
		s.rows, s.most = [2]*atomic.Int64{&b.unidentified}, max(limit/16, MaxPrefix+bodyGranule)
		return
	}
	s.most = limit / 4
	if by.Open {
		s.most = limit / 2
	}
	s.most = max(s.most, largestRequest)
	h := b.hash(by.Who)
	s.rows = [2]*atomic.Int64{&b.callers[0][h%bodyColumns], &b.callers[1][h/bodyColumns%bodyColumns]}
}

// hash returns the position of a caller in the table.
func (b *Counter) hash(who *auth.Principal) uint64 {
	h := maphash.String(b.seed, who.Value) + uint64(who.Kind)
	if who.Issuer != "" {
		h ^= maphash.String(b.seed, who.Issuer) * 31
	}
	return h
}

// Count adds n bytes that have arrived. The error is ErrOverloaded.
func (s *Share) Count(n int) error {
	s.held += int64(n)
	if s.reserved != nil {
		s.reserved.arrived.Add(int64(n))
	}
	if s.held <= s.taken {
		return nil
	}
	more := (s.held - s.taken + bodyGranule - 1) / bodyGranule * bodyGranule
	s.taken += more
	if s.reserved != nil {
		if more -= s.reserved.use(more); more == 0 {
			return nil
		}
	}
	limit := s.all.limit.Load()
	if s.arriving && s.held > bodyGranule {
		limit -= keepFree(limit) / 2
	}
	if all, own := s.all.add(s.rows, more); all <= limit && own <= s.most {
		return nil
	}
	s.give(more)
	return ErrOverloaded
}

// add counts n bytes of a caller, and returns the bytes of all and the estimate for the caller.
func (b *Counter) add(rows [2]*atomic.Int64, n int64) (all, own int64) {
	all, own = b.total.Add(n), rows[0].Add(n)
	if rows[1] != nil {
		own = min(own, rows[1].Add(n))
	}
	return all, own
}

// give subtracts bytes, and admits bodies that wait for them.
func (b *Counter) give(rows [2]*atomic.Int64, n int64) {
	b.add(rows, -n)
	if b.admission.waiting.Load() > 0 {
		b.wake()
	}
}

// Keep releases the bytes held beyond n.
func (s *Share) Keep(n int) {
	s.held = int64(n)
	if over := s.taken - (s.held+bodyGranule-1)/bodyGranule*bodyGranule; over > 0 {
		s.give(over)
	}
}

// End releases all bytes.
func (s *Share) End() {
	if s.all != nil {
		s.settle()
		s.Keep(0)
		s.all = nil
	}
}

func (s *Share) give(n int64) {
	s.taken -= n
	s.all.give(s.rows, n)
}

// CountedReader counts the bytes that are read from a reader.
type CountedReader struct {
	io.Reader
	Share *Share
}

func (r *CountedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if cerr := r.Share.Count(n); cerr != nil {
		return 0, cerr
	}
	return n, err
}
