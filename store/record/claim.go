package record

import (
	"context"
	"crypto/sha256"
	"sync"
)

// Claim is a request with an Idempotency-Key that is in flight.
type Claim struct {
	Tenant string
	Digest [sha256.Size]byte // see [store.IdempotentRequest.Digest]
	Body   [sha256.Size]byte // digest of the request's body
}

// Claimer keeps the requests that are in flight. Each process has its own in memory, where
// their duplicates wait; an engine whose store several processes have open also marks them
// there.
type Claimer interface {
	// Claims returns the requests in flight in this process.
	Claims() *Claims
	// Claim runs f on a snapshot. If f returns true, the request is marked as in flight for
	// other processes, and f sees what was written before the mark. While the request is in
	// flight in another process, Claim returns the digest of that request's body and does not
	// run f.
	Claim(ctx context.Context, c Claim, f func(Tx) (free bool, err error)) (other []byte, err error)
	// Unclaim removes the mark of this process.
	Unclaim(ctx context.Context, c Claim) error
	// Settle removes the mark of this process in a transaction. It returns false if there is
	// none, because another process has taken over the request.
	Settle(tx Tx, c Claim) (held bool, err error)
}

// Claims are the requests that are in flight in one process. They end with the process.
// The zero value has none.
type Claims struct {
	mu   sync.Mutex
	list map[claimKey]*inFlight
}

// claimKey identifies an idempotent request.
type claimKey struct {
	tenant string
	digest [sha256.Size]byte
}

// inFlight is a request that was begun.
type inFlight struct {
	body  [sha256.Size]byte
	ended chan struct{} // closed when the request has finished or was abandoned
}

func (c *Claim) key() claimKey { return claimKey{c.Tenant, c.Digest} }

// add adds a request, and returns it, unless one with its key is in flight: the duplicate.
func (s *Claims) add(c Claim) (mine, duplicate *inFlight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if duplicate = s.list[c.key()]; duplicate != nil {
		return nil, duplicate
	}
	if s.list == nil {
		s.list = map[claimKey]*inFlight{}
	}
	mine = &inFlight{body: c.Body, ended: make(chan struct{})}
	s.list[c.key()] = mine
	return mine, nil
}

// find returns the request in flight with its key and body, nil when there is none.
func (s *Claims) find(c Claim) *inFlight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.list[c.key()]; f != nil && f.body == c.Body {
		return f
	}
	return nil
}

// remove removes a request, unless another one has its place already, and wakes its
// duplicates.
func (s *Claims) remove(c Claim, f *inFlight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list[c.key()] == f {
		delete(s.list, c.key())
		close(f.ended)
	}
}

// Digests returns the digests of the requests.
func (s *Claims) Digests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	digests := make([][]byte, 0, len(s.list))
	for key := range s.list {
		digests = append(digests, key.digest[:])
	}
	return digests
}
