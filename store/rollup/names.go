package rollup

import (
	"time"

	"svc/store"
)

// Names are the names that months have: see [store.MaxNames]. It is empty at first.
type Names map[namesOf]map[string]struct{}

type namesOf struct {
	by    Dimension
	month time.Time
}

// Month returns the start of the month of a time, in UTC.
func Month(at time.Time) time.Time {
	year, month, _ := at.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}

// Of returns the value by which a name counts at a time, and adds it to its month. The names
// that a month has already are added first, with Of as well.
func (n Names) Of(by Dimension, at time.Time, name string) string {
	if name == "" || name == store.OtherName {
		return name
	}
	k := namesOf{by, Month(at)}
	known := n[k]
	if known == nil {
		known = map[string]struct{}{}
		n[k] = known
	}
	if _, ok := known[name]; !ok {
		if len(known) >= store.MaxNames {
			return store.OtherName
		}
		known[name] = struct{}{}
	}
	return name
}

// Collector sums up partials by key.
type Collector struct {
	at   map[Key]int
	rows []Entry
	last int // the row of the last Add
}

// NewCollector returns a collector without partials.
func NewCollector() *Collector { return &Collector{at: map[Key]int{}} }

// Add adds a partial, which is not changed.
func (c *Collector) Add(k Key, p *Partial) {
	if len(c.rows) == 0 || c.rows[c.last].Key != k {
		i, ok := c.at[k]
		if !ok {
			i = len(c.rows)
			c.at[k] = i
			c.rows = append(c.rows, Entry{Key: k})
		}
		c.last = i
	}
	sum := &c.rows[c.last].Partial
	sum.addCounters(p)
	sum.Bins = append(sum.Bins, p.Bins...)
}

// Entries returns the sums in the order in which their keys were added first.
func (c *Collector) Entries() []Entry {
	for i := range c.rows {
		c.rows[i].Partial.Bins = sumBins(c.rows[i].Partial.Bins)
	}
	return c.rows
}
