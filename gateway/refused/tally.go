package refused

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"svc/gateway/audit"
)

// maxClients bounds the clients that are told apart between two summaries. The
// requests of further ones are counted by their reason alone.
const maxClients = 4096

// second counts the lines of one second.
type second struct {
	began   time.Time
	lines   int
	clients map[netip.Prefix]int // only those with a line: at most linesInAll
}

// admits reports whether there is a line for a client, and takes it.
func (s *second) admits(client netip.Prefix, at time.Time) bool {
	// Requests that overtake each other, and a clock that is set back a little, begin
	// no second of their own.
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
	kinds    map[string]uint64 // as many as there are refusals
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

// merge adds the counts of other, which has some.
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

// reset forgets the counts and keeps the memory.
func (t *tally) reset() {
	t.requests = 0
	clear(t.kinds)
	clear(t.clients)
}

// line is what the line of a summary has.
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

// text names a client: an IPv4 address, or an IPv6 network.
func text(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
