package multiplex

import (
	"sync"
	"time"

	"svc/gateway/session"
)

// maxPending bounds the calls that are remembered after they were left.
const maxPending = 8192

// pending are calls without an answer, by the session of the calls and their upstream. A server may send
// what belongs to a call on the standalone stream of the session, where it does not name the call, and go
// on with a call that the client, or the gateway, has left.
type pending struct {
	now   func() time.Time
	began time.Time

	mu    sync.Mutex
	calls map[place]map[session.Origin]pendingCalls
	size  int // of all places
	swept time.Time
}

// place is the session of a client at an upstream.
type place struct {
	id       session.ID
	upstream string
}

// pendingCalls counts equal calls in flight. until is when those that were left have ended, at the latest.
type pendingCalls struct {
	running int
	until   time.Time
}

// Pend records a call in flight until the function that it returns is called with whether the upstream has
// answered. A call without an answer stays for an hour. kept is false if there was no room for that.
func (s *Sessions) Pend(id session.ID, o session.Origin) (end func(answered bool) (kept bool)) {
	p, at := &s.pending, place{id, o.Upstream}
	o = o.Detach()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[at] == nil {
		if p.calls == nil {
			p.calls = map[place]map[session.Origin]pendingCalls{}
		}
		p.calls[at] = map[session.Origin]pendingCalls{}
	}
	c, known := p.calls[at][o]
	if !known {
		p.size++
	}
	c.running++
	p.calls[at][o] = c
	return func(answered bool) (kept bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := p.now()
		kept = answered || p.room(now)
		c := p.calls[at][o]
		if c.running--; !answered && kept {
			c.until = now.Add(inFlightTTL)
		}
		p.calls[at][o] = c
		p.clean(at, now)
		return kept
	}
}

// room reports whether one more call can be remembered that was left. It needs mu.
func (p *pending) room(now time.Time) bool {
	if p.size > maxPending && now.Sub(p.swept) >= time.Minute {
		p.swept = now
		for at := range p.calls {
			p.clean(at, now)
		}
	}
	return p.size <= maxPending
}

// clean removes the calls of a place that have ended. It needs mu.
func (p *pending) clean(at place, now time.Time) {
	of := p.calls[at]
	for o, c := range of {
		if c.running == 0 && !now.Before(c.until) {
			delete(of, o)
			p.size--
		}
	}
	if len(of) == 0 {
		delete(p.calls, at)
	}
}

// Pending returns the calls of a session that have no answer of an upstream yet.
func (s *Sessions) Pending(id session.ID, upstream string) (calls []session.Origin) {
	p := &s.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for o, c := range p.calls[place{id, upstream}] {
		if c.running > 0 || now.Before(c.until) {
			calls = append(calls, o)
		}
	}
	return calls
}

// Forgotten reports whether a session may have calls that this process does not know, because it was
// opened before the process began: by a clock that may have been set back meanwhile.
func (s *Sessions) Forgotten(h *session.Handle) bool {
	p := &s.pending
	now := p.now()
	return now.Sub(p.began) < inFlightTTL && (h.Opened < p.began.UnixNano() || h.Opened > now.UnixNano())
}
