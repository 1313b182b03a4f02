//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// ledger records the clients' responses: acknowledgments, errors, and responses that must
// not occur.
type ledger struct {
	mu sync.Mutex

	errors map[string]int // in the period, by client and kind
	wrong  []string       // in the period

	sent     map[*tenant]*sent // traces
	records  map[string]record // acknowledged and not deleted, by name
	answered map[string]int    // successful calls, by tool
	called   map[string]int    // calls that were sent, by tool
	accepted []span            // requests of the limited tenant
	passed   []span            // calls of the limited caller

	stored time.Time     // when a trace was last acknowledged
	pause  time.Duration // the longest time without that, in the period

	sessions int // sessions that had to be begun again, in the period
}

// sent is the traces of a tenant that clients sent themselves.
type sent struct {
	acknowledged map[string]time.Time // by id
	newest       string               // id of the newest that was acknowledged
	attempts     int                  // that were sent at least once
}

// span is the time of a request and of its response.
type span struct{ sent, done time.Time }

// record is an acknowledged change.
type record struct{ kind, id, secret string }

func newLedger() *ledger {
	return &ledger{errors: map[string]int{}, sent: map[*tenant]*sent{}, records: map[string]record{}, answered: map[string]int{}, called: map[string]int{}}
}

// failed counts an error of a client.
func (l *ledger) failed(who, kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors[who+" "+kind]++
}

// unexpected records an undocumented response.
func (l *ledger) unexpected(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) < 50 {
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

// of returns the traces of a tenant. The caller holds mu.
func (l *ledger) of(t *tenant) *sent {
	s := l.sent[t]
	if s == nil {
		s = &sent{acknowledged: map[string]time.Time{}}
		l.sent[t] = s
	}
	return s
}

// acknowledged records that traces of a tenant are stored.
func (l *ledger) acknowledged(t *tenant, ids []string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(t)
	for _, id := range ids {
		s.acknowledged[id], s.newest = at, id
	}
	now := time.Now()
	l.pause = max(l.pause, now.Sub(l.stored))
	l.stored = now
}

// longestPause returns the longest time without an acknowledged trace since the last call.
func (l *ledger) longestPause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pause
	l.pause = 0
	return p
}

// period returns the errors since the last call.
func (l *ledger) period() (errors string, wrong []string, sessions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []string{}
	for _, k := range slices.Sorted(maps.Keys(l.errors)) {
		list = append(list, fmt.Sprintf("%s %d", k, l.errors[k]))
	}
	errors, wrong, sessions = strings.Join(list, ", "), l.wrong, l.sessions
	l.errors, l.wrong, l.sessions = map[string]int{}, nil, 0
	return errors, wrong, sessions
}

// mostWithin is the largest number of requests that are certainly within some interval of
// a length: sent after its begin and answered before its end.
func mostWithin(list []span, length time.Duration, since time.Time) int {
	most := 0
	for _, first := range list {
		if first.sent.Before(since) {
			continue
		}
		n := 0
		for _, s := range list {
			if !s.sent.Before(first.sent) && s.done.Before(first.sent.Add(length)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
