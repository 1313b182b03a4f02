package audit

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Refused is what a line of KindSummary adds: requests that were answered without
// an identified caller, and have no line of their own: refused ones, or preflights. The first of them
// came at the time of the line, and the last within its duration.
type Refused struct {
	// Counts are the requests by error_kind; preflights are [CountPreflight].
	Counts []KindCount
	// Addresses are the clients that most of them came from, busiest first. They
	// need not add up to Requests.
	Addresses []AddressCount
}

// CountPreflight is the name under which allowed CORS preflights are counted. A
// line has either these or refused requests.
const CountPreflight = "preflight"

// KindCount is how many requests had one outcome.
type KindCount struct {
	ErrorKind string
	Requests  uint64
}

// AddressCount is how many of the requests one client sent: an IPv4 address, or
// the /64 of an IPv6 address.
type AddressCount struct {
	Address  string
	Requests uint64
}

// MaxAddresses is how many addresses a line names.
const MaxAddresses = 16

// Requests returns how many requests the line is about.
func (s *Refused) Requests() (n uint64) {
	for i := range s.Counts {
		n += s.Counts[i].Requests
	}
	return n
}

// Action returns the action that the line of each request would have had.
func (c *KindCount) Action() string {
	switch c.ErrorKind {
	case CountPreflight:
		return ActionAllow
	case "input_rate_limited", "rate_limit_store_unavailable":
		return "rate_limit_blocked"
	}
	return "deny"
}

// sort orders counts by their names, and addresses by their counts.
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

// refused is what the line adds, made when its first member is read.
func (r *Record) refused() *Refused {
	if r.Refused == nil {
		r.Refused = &Refused{}
	}
	return r.Refused
}

// counts reads the member of that name.
func (d *decoder) counts(s *Refused) error {
	return d.object(func(name string) error {
		if len(s.Counts) >= maxList {
			return errNotRecord
		}
		c := KindCount{ErrorKind: name}
		err := d.unsigned(&c.Requests)
		s.Counts = append(s.Counts, c)
		return err
	})
}

// address reads one element of addresses.
func (d *decoder) address(s *Refused) error {
	var a AddressCount
	err := d.object(func(name string) (err error) {
		switch name {
		case "address":
			a.Address, err = d.str()
		case "requests":
			err = d.unsigned(&a.Requests)
		default:
			err = d.skip(0)
		}
		return err
	})
	s.Addresses = append(s.Addresses, a)
	return err
}

// WriteRefused writes a line of KindSummary. An error means that the line is not
// in the file and never will be, so that its counts can go into another one; it is
// not counted as lost. It returns once that is certain, which takes longer than
// write_timeout where the disk takes no writes.
func (l *Log) WriteRefused(from time.Time, during time.Duration, s *Refused) error {
	r := Record{Kind: KindSummary, Time: from, Duration: during, Refused: s}
	line := []item{{body: r.appendBody(nil), at: from.Add(during).UnixNano()}}
	var err error
	// The watchdog gives up lines, but not functions that have begun.
	if e := l.submit(item{do: func() error { err = l.leader.write(line); return nil }}); e != nil {
		return e
	}
	return err
}

// CountLost counts requests that were answered and will have no line; the next
// checkpoint reports them.
func (l *Log) CountLost(n uint64) {
	q := &l.queue
	q.mu.Lock()
	q.passed += n
	q.mu.Unlock()
	l.lost.Add(n)
}
