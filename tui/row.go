package tui

import (
	"strings"
	"time"

	"svc/server/display"
	"svc/store/api"
)

// outcome returns the outcome of a trace as one word.
type outcome uint8

const (
	succeeded outcome = iota
	failed
	blocked
)

func outcomeOf(d *display.Decision) outcome {
	switch d.Outcome {
	case display.Blocked:
		return blocked
	case display.Failed:
		return failed
	}
	return succeeded
}

func (o outcome) String() string { return [...]string{"ok", "failed", "blocked"}[o] }

// row is a trace as the list shows it. Its strings are cleaned once.
type row struct {
	n       uint64 // ascending in the order of the list
	trace   api.Trace
	notes   []Note
	outcome outcome

	agent, tool, model, env, session, id string
	policies, pii, why                   string
	ms, cost, tokens                     string
	// text is the lower-case text that a term without a field is searched in.
	text string
}

func newRow(ev Event) *row {
	t := ev.Trace
	r := &row{
		trace:   t,
		notes:   ev.Notes,
		agent:   clean(t.AgentName),
		tool:    clean(t.ToolName),
		model:   clean(display.Model(t.ModelProvider, t.ModelName)),
		env:     clean(t.Environment),
		session: clean(t.SessionID),
		id:      clean(t.ID),
		pii:     clean(strings.Join(t.PIIDetected, ",")),
		ms:      display.Millis(t.DurationMs),
		cost:    display.USD(t.CostUSD),
	}
	if r.agent == "" {
		r.agent = clean(t.AgentID)
	}
	d := display.DecisionOf(&t)
	r.outcome, r.why = outcomeOf(d), clean(d.Short())
	if n := t.InputTokens + t.OutputTokens; n > 0 {
		r.tokens = display.Short(float64(n))
	} else if t.CostUSD == 0 {
		r.cost = "-" // no model
	}
	var fired []string
	for _, p := range t.PoliciesFired {
		name := p.Name
		if name == "" {
			name = p.ID
		}
		fired = append(fired, name+":"+p.Action)
	}
	r.policies = clean(strings.Join(fired, ","))
	r.text = strings.ToLower(strings.Join([]string{r.agent, r.tool, r.model, r.env, r.session, r.id, r.policies, r.pii, r.outcome.String(), r.why,
		clean(t.RuleID), clean(t.Reason), clean(t.ErrorKind), clean(t.Principal), clean(t.Client.String())}, "\x00"))
	return r
}

// clock formats the start of a trace in UTC: the time if it is today, else the
// date.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.IsZero() {
		return "-"
	}
	if y, m, d := t.Date(); y == now.Year() && m == now.Month() && d == now.Day() {
		return t.Format("15:04:05.000")
	}
	return t.Format("Jan 02 15:04")
}

// minute formats a time to the minute, in UTC like the commands.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }

// firstRow is the number of the first row of a history. Older rows that are fetched later have lower ones.
const firstRow = 1 << 40

// history is the bounded memory of rows, oldest first. Each row has a permanent
// number; the oldest rows are removed when it is full.
type history struct {
	rows  []*row
	first uint64 // number of the oldest
	next  uint64 // number of the next row
}

func newHistory(size int) *history {
	return &history{rows: make([]*row, size), first: firstRow, next: firstRow}
}

// add adds a row, and returns the one that gives way; nil for none.
func (h *history) add(r *row) (gone *row) {
	at := h.next % uint64(len(h.rows))
	r.n, gone, h.rows[at] = h.next, h.rows[at], r
	if h.next++; h.next-h.first > uint64(len(h.rows)) {
		h.first++
	}
	return gone
}

func (h *history) at(n uint64) *row { return h.rows[n%uint64(len(h.rows))] }
func (h *history) len() int         { return int(h.next - h.first) }

func (h *history) clear() {
	clear(h.rows)
	h.first = h.next
}
