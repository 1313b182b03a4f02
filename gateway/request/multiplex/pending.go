package multiplex

import (
	"sync"

	"svc/gateway/session"
)

// pending are the labels that the answers of calls in flight will set, by the session of the calls and
// their upstream. A server may send what belongs to a call on the standalone stream of the session, where
// it does not name the call.
type pending struct {
	mu     sync.Mutex
	labels map[place]map[string]int // by name, the number of calls
}

// place is the session of a client at an upstream.
type place struct {
	id       session.ID
	upstream string
}

// Pend records the labels of a call in flight at an upstream until the function that it returns is called.
func (s *Sessions) Pend(id session.ID, upstream string, labels []string) (end func()) {
	p, at := &s.pending, place{id, upstream}
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.labels[at]
	if calls == nil {
		if p.labels == nil {
			p.labels = map[place]map[string]int{}
		}
		calls = map[string]int{}
		p.labels[at] = calls
	}
	for _, name := range labels {
		calls[name]++
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, name := range labels {
			if calls[name]--; calls[name] == 0 {
				delete(calls, name)
			}
		}
		if len(calls) == 0 && len(p.labels[at]) == 0 {
			delete(p.labels, at)
		}
	}
}

// Pending returns the labels of the calls of a session that are in flight at an upstream.
func (s *Sessions) Pending(id session.ID, upstream string) (labels []string) {
	s.pending.mu.Lock()
	defer s.pending.mu.Unlock()
	for name := range s.pending.labels[place{id, upstream}] {
		labels = append(labels, name)
	}
	return labels
}
