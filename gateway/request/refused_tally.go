package request

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"svc/gateway/audit"
)

// maxClients bounds the clients that are counted separately between two summaries.
// Requests of further clients are counted by reason only.
const maxClients = 4096

// second counts the lines of one second.
type second struct {
	began   time.Time
	lines   int
	clients map[netip.Prefix]int // only clients with a line: at most linesInAll
}

// admits reports whether a client has a line left, and uses it.
func (s *second) admits(client netip.Prefix, at time.Time) bool {
	// Requests out of order, and a clock that is set back a little, do not begin a
	// second of their own.
	if d := at.Sub(s.began); d >= time.Second || d <= -time.Second {
		s.began, s.lines = at, 0
		clear(s.clients)
	}
	if s.lines >= linesInAll || s.clients[client] >= linesPerClient {
		return false
	}
	if s.clients == nil {
		s.clients = make(map[netip.Prefix]int)
	}
	s.lines++
	s.clients[client]++
	return true
}

// tally counts requests.
type tally struct {
	first    time.Time
	requests uint64
	kinds    map[string]uint64 // as many as there are error kinds
	clients  map[netip.Prefix]uint64
}

func (t *tally) add(client netip.Prefix, errorKind string, at time.Time) {
	if t.kinds == nil {
		t.kinds, t.clients = make(map[string]uint64), make(map[netip.Prefix]uint64)
	}
	if t.requests == 0 || at.Before(t.first) {
		t.first = at
	}
	t.requests++
	t.kinds[errorKind]++
	t.addClient(client, 1)
}

func (t *tally) addClient(client netip.Prefix, n uint64) {
	if had, ok := t.clients[client]; ok || len(t.clients) < maxClients {
		t.clients[client] = had + n
	}
}

// merge adds the counts of other, which is not empty.
func (t *tally) merge(other *tally) {
	if t.kinds == nil {
		t.kinds, t.clients = make(map[string]uint64), make(map[netip.Prefix]uint64)
	}
	if t.requests == 0 || other.first.Before(t.first) {
		t.first = other.first
	}
	t.requests += other.requests
	for kind, n := range other.kinds {
		t.kinds[kind] += n
	}
	for client, n := range other.clients {
		t.addClient(client, n)
	}
}

// reset clears the counts and keeps the allocated memory.
func (t *tally) reset() {
	t.requests = 0
	clear(t.kinds)
	clear(t.clients)
}

// line returns the counts for the line of a summary.
func (t *tally) line() *audit.Refused {
	s := &audit.Refused{}
	for kind, n := range t.kinds {
		s.Counts = append(s.Counts, audit.KindCount{ErrorKind: kind, Requests: n})
	}
	clients := slices.SortedFunc(maps.Keys(t.clients), func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(t.clients[b], t.clients[a]), strings.Compare(a.String(), b.String()))
	})
	for _, p := range clients[:min(len(clients), audit.MaxAddresses)] {
		s.Addresses = append(s.Addresses, audit.AddressCount{Address: text(p), Requests: t.clients[p]})
	}
	return s
}

// text is the text form of a client: an IPv4 address, or an IPv6 network.
func text(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
