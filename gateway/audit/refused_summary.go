package audit

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Refused holds the fields of a line of KindSummary: requests that were answered without
// an identified caller and have no line of their own, either refused requests or
// preflights (decisions REQ1, REQ2). The first of them arrived at the time of the line,
// and the last within its duration.
type Refused struct {
	// Counts are the requests by error_kind; preflights are [CountPreflight].
	Counts []KindCount
	// Addresses are the clients with the most requests, busiest first. Their sum may be
	// less than Requests: addresses beyond the bound are counted by error_kind alone.
	Addresses []AddressCount
}

// CountPreflight is the name under which allowed CORS preflights are counted. A line has
// either preflights or refused requests.
const CountPreflight = "preflight"

// KindCount is the number of requests with one outcome.
type KindCount struct {
	ErrorKind string
	Requests  uint64
}

// AddressCount is the number of requests of one client: an IPv4 address, or the /64 of an
// IPv6 address.
type AddressCount struct {
	Address  string
	Requests uint64
}

// MaxAddresses is the largest number of addresses of a line.
const MaxAddresses = 16

// Requests returns the number of requests that the line counts.
func (s *Refused) Requests() (n uint64) {
	for i := range s.Counts {
		n += s.Counts[i].Requests
	}
	return n
}

// preflights reports whether the line counts allowed preflights.
func (s *Refused) preflights() bool {
	return !slices.ContainsFunc(s.Counts, func(c KindCount) bool { return c.ErrorKind != CountPreflight })
}

// Action returns the action that the line of each counted request would have had.
func (c *KindCount) Action() string {
	switch c.ErrorKind {
	case CountPreflight:
		return ActionAllow
	case "input_rate_limited", "rate_limit_store_unavailable":
		return "rate_limit_blocked"
	}
	return "deny"
}

// sort sorts counts by name, and addresses by count.
func (s *Refused) sort() {
	slices.SortFunc(s.Counts, func(a, b KindCount) int { return cmp.Compare(a.ErrorKind, b.ErrorKind) })
	slices.SortFunc(s.Addresses, func(a, b AddressCount) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Address, b.Address))
	})
}

func (s *Refused) appendBody(b []byte) []byte {
	s.sort()
	b = append(b, `,"counts":{`...)
	for i, c := range s.Counts[:min(len(s.Counts), maxList)] {
		b = appendString(comma(b, i), c.ErrorKind, maxItem)
		b = strconv.AppendUint(append(b, ':'), c.Requests, 10)
	}
	b = append(b, `},"addresses":[`...)
	for i, a := range s.Addresses[:min(len(s.Addresses), MaxAddresses)] {
		b = append(comma(b, i), `{"address":`...)
		b = appendString(b, a.Address, maxItem)
		b = append(b, `,"requests":`...)
		b = append(strconv.AppendUint(b, a.Requests, 10), '}')
	}
	return append(b, ']')
}

// WriteRefused writes a line of KindSummary. An error means that the line will never be
// in the file, so that its counts can be added to a later line; the line is not counted
// as lost. WriteRefused returns when the outcome is certain, which takes longer than
// write_timeout on a blocked disk.
func (l *Log) WriteRefused(from time.Time, during time.Duration, s *Refused) error {
	r := Record{Kind: KindSummary, Time: from, Duration: during, Refused: s}
	line := []item{{body: r.appendBody(nil), at: from.Add(during).UnixNano()}}
	var err error
	// A function, unlike a line, is not given up by the watchdog once it has begun.
	if e := l.submit(item{do: func() error { err = l.writer.write(line); return nil }}); e != nil {
		return e
	}
	return err
}

// CountLost counts requests that were answered and will have no line. The next checkpoint
// reports the count.
func (l *Log) CountLost(n uint64) {
	q := &l.queue
	q.mu.Lock()
	q.lostInQueue += n
	q.mu.Unlock()
	l.lost.Add(n)
}
