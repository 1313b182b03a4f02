package multiplex

import (
	"sync"
	"time"

	"svc/gateway/session"
)

// maxLeft bounds the places with calls that have ended without an answer.
const maxLeft = 65_536

// pending are the labels that the messages of calls without an answer will set, by the session of the
// calls and their upstream. A server may send what belongs to a call on the standalone stream of the
// session, where it does not name the call, and go on with a call that the client, or the gateway, has
// left.
type pending struct {
	now   func() time.Time
	began time.Time

	mu     sync.Mutex
	labels map[place]map[string]pendingLabel // by name
	swept  time.Time
}

// place is the session of a client at an upstream.
type place struct {
	id       session.ID
	upstream string
}

// pendingLabel counts the calls in flight that will set a label. until is when those that were left have
// ended, at the latest.
type pendingLabel struct {
	calls int
	until time.Time
}

// Pend records the labels of a call in flight at an upstream until the function that it returns is called
// with whether the upstream has answered. The labels of a call without an answer stay for an hour. kept is
// false if there was no room for that.
func (s *Sessions) Pend(id session.ID, upstream string, labels []string) (end func(answered bool) (kept bool)) {
	p, at := &s.pending, place{id, upstream}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.labels[at] == nil {
		if p.labels == nil {
			p.labels = map[place]map[string]pendingLabel{}
		}
		p.labels[at] = map[string]pendingLabel{}
	}
	for _, name := range labels {
		l := p.labels[at][name]
		l.calls++
		p.labels[at][name] = l
	}
	return func(answered bool) (kept bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		now, of := p.now(), p.labels[at]
		kept = answered || p.room(now)
		for _, name := range labels {
			l := of[name]
			if l.calls--; !answered && kept {
				l.until = now.Add(inFlightTTL)
			}
			of[name] = l
		}
		p.clean(at, now)
		return kept
	}
}

// room reports whether one more call without an answer can be remembered. It needs mu.
func (p *pending) room(now time.Time) bool {
	if len(p.labels) > maxLeft && now.Sub(p.swept) >= time.Minute {
		p.swept = now
		for at := range p.labels {
			p.clean(at, now)
		}
	}
	return len(p.labels) <= maxLeft
}

// clean removes the labels of a place that no call will set. It needs mu.
func (p *pending) clean(at place, now time.Time) {
	of := p.labels[at]
	for name, l := range of {
		if l.calls == 0 && !now.Before(l.until) {
			delete(of, name)
		}
	}
	if len(of) == 0 {
		delete(p.labels, at)
	}
}

// Pending returns the labels of the calls of a session that have no answer of an upstream yet.
func (s *Sessions) Pending(id session.ID, upstream string) (labels []string) {
	p := &s.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for name, l := range p.labels[place{id, upstream}] {
		if l.calls > 0 || now.Before(l.until) {
			labels = append(labels, name)
		}
	}
	return labels
}

// Forgotten reports whether a session may have calls that this process does not know, because it was
// opened before the process began: by a clock that may have been set back meanwhile.
func (s *Sessions) Forgotten(h *session.Handle) bool {
	p := &s.pending
	now := p.now()
	return now.Sub(p.began) < inFlightTTL && (h.Opened < p.began.UnixNano() || h.Opened > now.UnixNano())
}
