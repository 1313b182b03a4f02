package tolegacy

import (
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"svc/gateway/translate/quota"
)

// Bounds on calls that are held for a question.
const (
	holdTime      = 5 * time.Minute
	maxHeld       = 1024 // of all principals, at all upstreams
	maxHeldByEach = 64   // of a principal, at all upstreams
)

// Holds bound the calls that are held, at all upstreams whose translators share it.
type Holds struct{ *quota.Quota[poolKey] }

// NewHolds returns the bounds of a gateway.
func NewHolds() Holds { return Holds{quota.New[poolKey](maxHeld, maxHeldByEach)} }

// errHeld is the error of a question beyond the bounds.
var errHeld = errors.New("too many calls wait for an answer to a question")

// held are the calls at one upstream that wait for their client's answer. It is safe for
// concurrent use.
type held struct {
	bounds Holds

	mu  sync.Mutex
	all map[string]*holding
}

// holding is one call that is held.
type holding struct {
	call     *call
	question []byte // that it waits for, as the client gets it; nobody changes it
	timer    *time.Timer
}

// add holds a call that waits for a question, and returns its name. When nobody has taken
// it within holdTime, late is called.
func (h *held) add(c *call, question []byte, late func()) (name string, err error) {
	if !h.bounds.Take(c.principal, 1) {
		return "", errHeld
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]*holding{}
	}
	name = rand.Text()
	h.all[name] = &holding{call: c, question: question, timer: time.AfterFunc(holdTime, func() {
		if h.take(name) != nil {
			late()
		}
	})}
	return name, nil
}

// peek returns the question of a held call, which stays held; nil when there is none of
// that name. The call itself belongs to whoever takes it.
func (h *held) peek(name string) (question []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.all[name]; at != nil {
		return at.question
	}
	return nil
}

// take returns a held call to the one that asks first; nil to all others.
func (h *held) take(name string) *call {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.all[name]
	if at == nil {
		return nil
	}
	at.timer.Stop()
	delete(h.all, name)
	h.bounds.Give(at.call.principal, 1)
	return at.call
}

// drain returns all that are held.
func (h *held) drain() []*call {
	h.mu.Lock()
	names := make([]string, 0, len(h.all))
	for name := range h.all {
		names = append(names, name)
	}
	h.mu.Unlock()
	var out []*call
	for _, name := range names {
		if c := h.take(name); c != nil {
			out = append(out, c)
		}
	}
	return out
}
