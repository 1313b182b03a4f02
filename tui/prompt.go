package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/store/api"
)

// prompt asks for a text at the bottom of the screen.
type prompt struct {
	label, hint string
	input       textinput.Model
	err         error
	done        func(text string) (tea.Cmd, error) // an error is shown, and the prompt stays
}

func newPrompt(label, hint, value string, done func(string) (tea.Cmd, error)) *prompt {
	p := &prompt{label: label, hint: hint, input: textinput.New(), done: done}
	p.input.CharLimit = 200
	p.input.SetValue(value)
	p.input.CursorEnd()
	p.input.Focus()
	return p
}

func (m *Model) promptKey(k tea.KeyMsg) tea.Cmd {
	p := m.prompt
	switch k.String() {
	case "esc":
		m.prompt = nil
	case "enter":
		cmd, err := p.done(strings.TrimSpace(p.input.Value()))
		if p.err = err; err == nil {
			m.prompt = nil
		}
		return cmd
	default:
		p.input, _ = p.input.Update(k)
		p.err = nil
	}
	return nil
}

func (p *prompt) draw(s *styles, w int) string {
	var l line
	l.add(s.accent, " "+p.label+" ")
	drawInput(&l, s, &p.input, w/2-width(p.label)-3)
	if p.err != nil {
		l.add(s.bad, "  "+clean(p.err.Error()))
	} else {
		l.add(s.dim, "  "+p.hint)
	}
	return l.fit(w)
}

// seekers are the screens on which a row of an id is selected, by the beginning of the id.
var seekers = map[string]string{"pol_": "Policies", "bud_": "Budgets", "sla_": "SLAs", "agt_": "Agents"}

// askID asks for an id to jump to.
func (m *Model) askID() tea.Cmd {
	m.s.ask(newPrompt("Id", "of a trace, request, approval, policy… · enter opens, esc leaves", "", m.jump))
	return nil
}

// jump opens what has an id: a trace, by its own id or that of its request, an approval, or a row of a screen.
func (m *Model) jump(id string) (tea.Cmd, error) {
	switch {
	case id == "":
		return nil, nil
	case m.s.plane != nil && strings.HasPrefix(id, "apr_"):
		return m.s.open(newApprovalPage(m.s, id)), nil
	}
	for prefix, title := range seekers {
		i := slices.IndexFunc(m.screens, func(sc screen) bool { return sc.title == title })
		if i < 0 || !strings.HasPrefix(id, prefix) {
			continue
		}
		if p, ok := m.pages[i].(interface{ seek(string) }); ok {
			cmd := m.switchTo(i)
			p.seek(id)
			return cmd, nil
		}
	}
	if r := m.traces.byID(id); r != nil {
		return m.s.open(newTracePage(m.s, m.traces, r)), nil
	}
	if m.s.plane == nil {
		return nil, errors.New("no trace in memory has this id")
	}
	p := newTracePage(m.s, m.traces, &row{id: clean(id), trace: api.Trace{TraceItem: api.TraceItem{ID: id}}})
	p.find = true
	return m.s.open(p), nil
}

// byID returns the newest row in memory with the id of a trace or request; nil if there is none.
func (t *tracesPage) byID(id string) *row {
	has := func(r *row) bool { return r.trace.ID == id || r.trace.RequestID == id }
	for n := t.history.next; n > t.history.first; n-- {
		if r := t.history.at(n - 1); has(r) {
			return r
		}
	}
	for _, r := range slices.Backward(t.matches[:t.past()]) {
		if has(r) {
			return r
		}
	}
	return nil
}

// findTrace reads the trace with an id, or the newest one of the request with that id.
func (s *shared) findTrace(ctx context.Context, id string) (api.Trace, error) {
	t, err := s.plane.GetTrace(ctx, id)
	if !missing(err) {
		return t, err
	}
	page, listed := s.plane.ListTraces(ctx, client.TraceQuery{Page: client.Page{Limit: 1}, TraceFilter: client.TraceFilter{RequestID: id}})
	if listed != nil || len(page.Data) == 0 {
		return t, errors.Join(listed, err)
	}
	return s.plane.GetTrace(ctx, page.Data[0].ID)
}

// askRange asks for the time of which traces are shown.
func (t *tracesPage) askRange() tea.Cmd {
	t.s.ask(newPrompt("Time", "last 2h · yesterday · 14:00..15:00 · 2026-11-30 14:00..15:00 · empty: live", "", func(text string) (tea.Cmd, error) {
		terms, err := rangeTerms(text, t.s.now())
		if err != nil {
			return nil, err
		}
		t.setFilter(strings.TrimSpace(t.filter.rest() + " " + terms))
		t.follow = true
		t.shown()
		return t.fill(), nil
	}))
	return nil
}

// rangeTerms converts a range of time to the terms of a filter; an empty one to none.
func rangeTerms(text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	from, to, ranged := strings.Cut(text, "..")
	from, to = strings.TrimSpace(strings.TrimPrefix(from, "last ")), strings.TrimSpace(to)
	var since, until, last time.Time
	var err error
	if from != "" {
		if since, last, err = parseTime(from, now, now); err != nil {
			return "", err
		}
	}
	if !ranged && !last.Equal(since) { // a day
		until = last
	}
	if to != "" {
		day := now
		if from != "" {
			day = since
		}
		if _, until, err = parseTime(to, now, day); err != nil {
			return "", err
		}
	}
	if !until.IsZero() && until.Before(since) {
		return "", errors.New("it ends before it begins")
	}
	var terms []string
	for _, term := range []struct {
		name  string
		at    time.Time
		whole string // the time of a day that is shorter without it
	}{{"since", since, "T00:00"}, {"until", until, "T23:59:59"}} {
		if !term.at.IsZero() {
			text := strings.TrimSuffix(term.at.UTC().Format("2006-01-02T15:04:05"), ":00")
			terms = append(terms, term.name+":"+strings.TrimSuffix(text, term.whole))
		}
	}
	return strings.Join(terms, " "), nil
}

// layouts are the forms of a time of a day that is named.
var layouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"}

// parseTime parses how long ago a time was (2h, 7d), a day (2026-11-30, yesterday), a time (2026-11-30T14:00), or
// a time of a day that is given (14:00). It returns the first and the last second of it, in UTC.
func parseTime(s string, now, day time.Time) (first, last time.Time, err error) {
	now, day = now.UTC(), day.UTC()
	midnight := func(t time.Time) time.Time { return t.Truncate(24 * time.Hour) }
	whole := func(t time.Time) (time.Time, time.Time, error) { return t, t.Add(24*time.Hour - time.Second), nil }
	point := func(t time.Time) (time.Time, time.Time, error) { return t.UTC(), t.UTC(), nil }
	switch strings.ToLower(s) {
	case "now":
		return point(now)
	case "today":
		return whole(midnight(now))
	case "yesterday":
		return whole(midnight(now).Add(-24 * time.Hour))
	}
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return whole(t)
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return point(t)
		}
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return point(midnight(day).Add(t.Sub(midnight(t))))
		}
	}
	if ago, ok := parseAgo(s); ok {
		return point(now.Add(-ago).Truncate(time.Second))
	}
	return first, last, fmt.Errorf("%q is no time: write 2h, 7d, yesterday, 14:00, 2026-11-30 or 2026-11-30T14:00", s)
}

// parseAgo parses a duration such as 90s, 1h30m, 7d or 2w.
func parseAgo(s string) (time.Duration, bool) {
	if len(s) > 1 && (s[len(s)-1] == 'd' || s[len(s)-1] == 'w') {
		days := map[byte]int{'d': 1, 'w': 7}[s[len(s)-1]]
		n, err := strconv.Atoi(s[:len(s)-1])
		return time.Duration(n*days) * 24 * time.Hour, err == nil && n > 0 && n < 10_000
	}
	ago, err := time.ParseDuration(s)
	return ago, err == nil && ago > 0
}
