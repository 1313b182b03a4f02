package gateway

import (
	"errors"
	"hash/maphash"
	"io"
	"sync/atomic"

	"svc/gateway/auth"
	"svc/gateway/mcp"
)

// errOverloaded: the bytes of bodies in memory have reached a bound.
var errOverloaded = errors.New("too many bytes of bodies are in memory")

const (
	// bodyGranule is what a share grows by: a small call asks for it once.
	bodyGranule = 16 << 10
	// bodyColumns is the width of the table in which the bytes of callers are counted.
	bodyColumns = 2048
	// largestRequest is what one request may hold: its body and one of the largest
	// size of an answer.
	largestRequest = 2*mcp.MaxBody + bodyGranule
)

// bodies counts the bytes of bodies in memory, of requests and of answers, against
// limits.body_bytes and the shares of it. No lock is taken: there is one counter for
// all bytes, one for those of requests whose caller is not known yet, and for callers
// a table of two rows of counters. A caller counts in one of each row, and holds at
// most the smaller of the two: never less than it really holds, and more only while
// it meets other callers in both rows, which no caller can arrange: the places depend
// on a random seed.
type bodies struct {
	limit        atomic.Int64
	total        atomic.Int64
	unidentified atomic.Int64
	seed         maphash.Seed
	callers      [2][bodyColumns]atomic.Int64
}

func newBodies() *bodies { return &bodies{seed: maphash.MakeSeed()} }

// share is what one request holds of it, or one source of a stream. It belongs to one
// goroutine.
type share struct {
	all   *bodies // nil before begin
	rows  [2]*atomic.Int64
	most  int64 // that its caller may hold
	held  int64 // bytes
	taken int64 // of the counters: held, rounded up
}

// begin says whose bytes are counted from here on.
func (s *share) begin(ex *exchange) {
	if s.all != nil {
		return
	}
	b := ex.g.bodies
	limit := b.limit.Load()
	s.all = b
	if !ex.callerKnown() {
		s.rows, s.most = [2]*atomic.Int64{&b.unidentified}, max(limit/16, maxPrefix+bodyGranule)
		return
	}
	s.most = limit / 4
	if ex.live.keyring == nil {
		s.most = limit / 2
	}
	s.most = max(s.most, largestRequest)
	h := b.hash(&ex.who)
	s.rows = [2]*atomic.Int64{&b.callers[0][h%bodyColumns], &b.callers[1][h/bodyColumns%bodyColumns]}
}

// hash returns the place of a caller in the table.
func (b *bodies) hash(who *auth.Principal) uint64 {
	h := maphash.String(b.seed, who.Value) + uint64(who.Kind)
	if who.Issuer != "" {
		h ^= maphash.String(b.seed, who.Issuer) * 31
	}
	return h
}

// Count adds n bytes that have arrived. The error is errOverloaded.
func (s *share) Count(n int) error {
	s.held += int64(n)
	if s.held <= s.taken {
		return nil
	}
	more := (s.held - s.taken + bodyGranule - 1) / bodyGranule * bodyGranule
	s.taken += more
	ok := s.all.total.Add(more) <= s.all.limit.Load()
	least := int64(0)
	for i, row := range s.rows {
		if row == nil {
			continue
		}
		if now := row.Add(more); i == 0 || now < least {
			least = now
		}
	}
	if ok && least <= s.most {
		return nil
	}
	s.give(more)
	return errOverloaded
}

// keep gives back what is held beyond n bytes.
func (s *share) keep(n int) {
	s.held = int64(n)
	if over := s.taken - (s.held+bodyGranule-1)/bodyGranule*bodyGranule; over > 0 {
		s.give(over)
	}
}

// end gives everything back.
func (s *share) end() {
	if s.all != nil {
		s.keep(0)
		s.all = nil
	}
}

func (s *share) give(n int64) {
	s.taken -= n
	s.all.total.Add(-n)
	for _, row := range s.rows {
		if row != nil {
			row.Add(-n)
		}
	}
}

// countedReader counts what is read.
type countedReader struct {
	io.Reader
	share *share
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if cerr := r.share.Count(n); cerr != nil {
		return 0, cerr
	}
	return n, err
}
