package tui

import (
	"context"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

const (
	// olderPage is the number of traces of one request. Larger pages have few slots at the control plane.
	olderPage = 100
	// maxLooked bounds the older traces that are read at once for a filter that few of them pass.
	maxLooked = 2000
	// jitter is how much later a trace may have begun than one that arrived after it.
	jitter = 10 * time.Second
)

// older reads the traces before those in memory, page by page.
type older struct {
	load   loader[api.Page[api.TraceItem]]
	open   bool   // whether any were read since the filter was set
	cursor string // of the next page; "" for the one before the oldest row
	end    bool   // whether the control plane has no others
	wanted bool
	next   uint64 // the row that is added next has the number below

	looked int       // traces that were read since the filter was set
	back   time.Time // start of the oldest of them
	pages  int       // of the reading that goes on
	found  int       // rows that it has added
}

func (o *older) reset() {
	o.load.stop()
	o.load.err = nil
	*o = older{load: o.load, next: o.next}
}

// forgetCursor makes the next page begin before the oldest row, because rows between were removed.
func (o *older) forgetCursor() {
	o.load.stop()
	o.cursor, o.end = "", false
}

// upKeys are the keys that read older traces on the first row.
var upKeys = []string{"up", "k", "pgup", "ctrl+b", "ctrl+u", "home", "g"}

// fill reads traces of the period of the filter until they fill the screen, and those that the wheel asks for.
func (t *tracesPage) fill() tea.Cmd {
	o := &t.older
	ranged := !t.filter.since.IsZero() || !t.filter.until.IsZero()
	if !o.wanted && (!ranged || o.open || t.typing || t.s.plane == nil || t.list.n >= max(1, t.list.height)) {
		return nil
	}
	o.wanted = false
	return t.moreOlder()
}

// full reports whether no more older rows are kept.
func (t *tracesPage) full() bool { return t.past() >= len(t.history.rows) }

// moreOlder starts a reading, which ends when it has filled a screen or has read maxLooked traces.
func (t *tracesPage) moreOlder() tea.Cmd {
	o := &t.older
	o.open = true // from now on a line says why there are no others
	if t.s.plane == nil || o.load.busy || o.load.err != nil && t.s.now().Before(o.load.due) {
		return nil
	}
	o.pages, o.found = 0, 0
	return t.nextOlder()
}

func (t *tracesPage) nextOlder() tea.Cmd {
	o := &t.older
	q := client.TraceQuery{Page: client.Page{Limit: olderPage, After: o.cursor}, TraceFilter: t.filter.query()}
	if before := t.oldest(); o.cursor == "" && !before.IsZero() && (q.End.IsZero() || before.Before(q.End)) {
		q.End = before
	}
	if !q.End.IsZero() && q.End.Before(q.Start) {
		o.end = true // the rows in memory begin before the period
	}
	if o.end || t.full() || o.pages >= maxLooked/olderPage {
		return nil
	}
	o.pages++
	o.load.fetch = func(ctx context.Context) (api.Page[api.TraceItem], error) { return t.s.plane.ListTraces(ctx, q) }
	return o.load.load(t.s)
}

// oldest returns the time up to which traces are missing.
func (t *tracesPage) oldest() time.Time {
	if t.past() > 0 {
		return t.matches[0].trace.CreatedAt
	}
	if t.history.len() == 0 {
		return time.Time{}
	}
	// A trace that has left the memory may have begun after the oldest one that is there.
	first := t.history.at(t.history.first).trace.CreatedAt
	if last := first.Add(jitter); t.gone.After(last) {
		return last
	}
	if t.gone.After(first) {
		return t.gone
	}
	return first
}

// gotOlder puts the traces of a page above the rows.
func (t *tracesPage) gotOlder() tea.Cmd {
	o := &t.older
	if o.load.err != nil {
		return nil
	}
	page := o.load.data
	o.load.data = api.Page[api.TraceItem]{}
	o.cursor, o.end = page.Next, page.Next == ""
	known := make(map[string]bool, t.history.len())
	for n := t.history.first; n < t.history.next; n++ {
		known[t.history.at(n).trace.ID] = true
	}
	for _, r := range t.matches[:t.past()] {
		known[r.trace.ID] = true
	}
	var rows []*row
	for _, item := range page.Data {
		if known[item.ID] {
			continue
		}
		r := newRow(Event{Trace: api.Trace{TraceItem: item}})
		o.looked++
		o.back = item.CreatedAt
		if t.filter.match(r) && len(rows)+t.past() < len(t.history.rows) {
			o.next--
			r.n = o.next
			rows = append(rows, r)
		}
	}
	slices.Reverse(rows)
	t.matches = slices.Insert(t.matches, 0, rows...)
	t.list.sel, t.list.top = t.list.sel+len(rows), t.list.top+len(rows)
	t.shown()
	if o.found += len(rows); o.found >= max(1, t.list.height) {
		return nil
	}
	return t.nextOlder()
}

// olderNote returns the line above the oldest row.
func (t *tracesPage) olderNote() (string, style) {
	p, o := t.s.styles, &t.older
	switch {
	case !o.open:
	case t.s.plane == nil:
		return "the oldest one in memory: --audit begins with the last lines of the file and follows it", p.dim
	case o.load.busy:
		return "older traces are being fetched…", p.accent
	case o.load.err != nil:
		return "older traces: " + userMessage(o.load.err) + " · ↑ asks again", p.bad
	case o.end && len(t.matches) == 0:
		return "None of " + display.Plural(o.looked, "older trace", "older traces") + " does either.", p.dim
	case o.end && !t.filter.since.IsZero():
		return "the oldest trace of this time", p.dim
	case o.end && !t.filter.empty():
		return "the oldest trace that passes the filter", p.dim
	case o.end:
		return "the oldest trace of the control plane", p.dim
	case t.full():
		return "the oldest trace that is kept here: w shows those of a time", p.warn
	case o.found == 0 && o.looked > 0:
		return "none of " + display.Plural(o.looked, "older trace", "older traces") + " back to " + minute(o.back) + " passes the filter · ↑ looks further", p.warn
	}
	return "", p.dim
}
