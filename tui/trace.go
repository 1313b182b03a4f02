package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/display"
	"svc/store/api"
)

// tracePage shows one trace: its fields and a waterfall of its spans.
type tracePage struct {
	s      *shared
	find   bool // whether the row has only an id, which is looked for
	traces *tracesPage
	row    *row
	full   loader[api.Trace]
	scroll scroller
}

func newTracePage(s *shared, traces *tracesPage, r *row) *tracePage {
	t := &tracePage{s: s, traces: traces, row: r}
	return t
}

func (t *tracePage) title() string { return "Trace" }

func (t *tracePage) enter() tea.Cmd {
	if t.s.plane == nil {
		return nil
	}
	id, get := t.row.trace.ID, t.s.plane.GetTrace
	if t.find {
		get = t.s.findTrace
		t.full.done = func() tea.Cmd {
			if t.full.have {
				t.row, t.find = newRow(Event{Trace: t.full.data}), false
			}
			return nil
		}
	}
	t.full.fetch = func(ctx context.Context) (api.Trace, error) { return get(ctx, id) }
	return t.full.load(t.s)
}

func (t *tracePage) leave() { t.full.stop() }

func (t *tracePage) tick() tea.Cmd {
	if t.s.plane == nil || t.full.have || t.full.err == nil || missing(t.full.err) {
		return nil
	}
	return t.full.tick(t.s)
}

// step shows the next or previous trace that passes the filter.
func (t *tracePage) step(by int) tea.Cmd {
	if t.row.n == 0 { // it was found by its id, and is not in the list
		return nil
	}
	m, at := t.traces.matches, t.traces.indexOf(t.row.n)
	if by > 0 && (at >= len(m) || m[at] != t.row) {
		by-- // the trace was removed from memory, so the search starts at its position
	}
	at += by
	if at < 0 || at >= len(m) {
		return nil
	}
	t.traces.list.sel = at
	t.traces.moved()
	t.row = m[at]
	t.full = loader[api.Trace]{gen: t.full.gen, cancel: t.full.cancel}
	t.scroll = scroller{}
	return t.enter()
}

func (t *tracePage) key(k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "right", "l", "n", "J":
		return t.step(1)
	case "left", "h", "N", "K":
		return t.step(-1)
	case "backspace":
		t.s.back()
	case "y":
		t.s.copyText("id", t.row.trace.ID)
	case "c":
		if text, err := json.MarshalIndent(t.trace(), "", "  "); err == nil {
			t.s.copyText("JSON", string(text))
		}
	case "a":
		if t.find {
			return nil
		}
		return t.s.show("agent:" + quoted(t.row.agent))
	default:
		t.scroll.key(k.String())
	}
	return nil
}

// trace returns the trace with all known data.
func (t *tracePage) trace() api.Trace {
	if t.full.have {
		return t.full.data
	}
	return t.row.trace
}

func (t *tracePage) click(int, int) tea.Cmd    { return nil }
func (t *tracePage) wheel(by int)              { t.scroll.move(by) }
func (t *tracePage) footer(int) (string, bool) { return "", false }

func (t *tracePage) hints() []hint {
	return []hint{{"esc", "back"}, {"←→", "previous, next"}, {"↑↓", "scroll"}, {"y", "copy id"}, {"c", "copy JSON"}, {"a", "this agent"}}
}

func (t *tracePage) status(w int) string {
	p := t.s.styles
	var l line
	l.add(p.bold, " Trace ")
	l.add(p.accent, t.row.id)
	if t.s.plane != nil {
		if text, style := t.full.state(t.s); text != "" {
			l.add(style, " · "+text)
		}
	}
	return l.fit(w)
}

// field is a name and a value of the details.
type field struct {
	name, value string
	style       style
	wide        bool // takes a line of its own
}

func (t *tracePage) fields() []field {
	p, r, tr := t.s.styles, t.row, t.trace()
	at := tr.CreatedAt.UTC()
	score := func() (string, style) {
		style := p.plain
		if tr.InjectionScore >= 0.8 {
			style = p.bad
		} else if tr.InjectionScore >= 0.5 {
			style = p.warn
		}
		return strconv.FormatFloat(tr.InjectionScore, 'f', 2, 64), style
	}
	injection, injectionStyle := score()
	tokens := "-"
	if tr.InputTokens+tr.OutputTokens > 0 {
		tokens = fmt.Sprintf("%s in, %s out", display.Count(tr.InputTokens), display.Count(tr.OutputTokens))
	}
	if tr.CacheReadTokens+tr.CacheCreationTokens > 0 {
		tokens += fmt.Sprintf(" (cache: %s read, %s written)", display.Count(tr.CacheReadTokens), display.Count(tr.CacheCreationTokens))
	}
	fields := []field{
		{name: "Status", value: r.outcome.String(), style: p.of(r.outcome)},
		{name: "Began", value: at.Format("2006-01-02 15:04:05.000Z")},
		{name: "Agent", value: display.OrDash(r.agent)},
		{name: "Latency", value: r.ms},
		{name: "Tool", value: display.OrDash(r.tool)},
		{name: "Cost", value: r.cost},
		{name: "Model", value: display.OrDash(r.model)},
		{name: "Tokens", value: tokens},
		{name: "Environment", value: display.OrDash(r.env)},
		{name: "Injection", value: injection, style: injectionStyle},
	}
	if d := display.DecisionOf(&tr); d.Outcome != display.Succeeded {
		w := d.Why()
		for _, f := range []field{{name: "Why", value: w.Decision, style: p.of(r.outcome)}, {name: "Cause", value: w.Cause}, {name: "Caller got", value: w.Told}, {name: "What to do", value: w.Do}} {
			if f.wide = true; f.value != "" {
				f.value = clean(f.value)
				fields = append(fields, f)
			}
		}
	}
	if r.pii != "" {
		fields = append(fields, field{name: "PII", value: strings.ReplaceAll(r.pii, ",", ", "), style: p.warn, wide: true})
	}
	if r.session != "" {
		fields = append(fields, field{name: "Session", value: r.session, wide: true})
	}
	for _, f := range []struct{ name, value string }{
		{"Principal", tr.Principal}, {"Client", tr.Client.String()}, {"Rule", tr.RuleID}, {"Reason", tr.Reason}, {"Error kind", tr.ErrorKind}, {"Approval", tr.Approval.String()}, {"Labels", strings.Join(tr.Labels, ", ")}, {"Sets", strings.Join(tr.Sets, ", ")}, {"Request", tr.RequestID},
	} {
		if f.value != "" && f.value != tr.ID {
			fields = append(fields, field{name: f.name, value: clean(f.value), wide: true})
		}
	}
	if tr.AgentID != "" {
		fields = append(fields, field{name: "Agent id", value: clean(tr.AgentID), wide: true})
	}
	for _, f := range tr.PoliciesFired {
		style := p.warn
		if f.Action == "block" {
			style = p.block
		}
		name := clean(f.Name)
		if name == "" {
			name = clean(f.ID)
		} else {
			name += " (" + clean(f.ID) + ")"
		}
		fields = append(fields, field{name: "Policy", value: clean(f.Action) + " · " + name, style: style, wide: true})
	}
	for _, q := range tr.QualityScores {
		fields = append(fields, field{name: "Quality", value: clean(q.Scorer) + " " + display.Trim(q.Score), wide: true})
	}
	for _, n := range r.notes {
		fields = append(fields, field{name: clean(n.Name), value: clean(n.Value)})
	}
	return fields
}

const nameWidth = 12 // width of the field names

func (t *tracePage) view(w, h int) []string {
	switch {
	case t.find && t.full.err == nil:
		return centred(t.s.styles, w, h, "Asking the control plane…", "")
	case t.find && missing(t.full.err):
		return centred(t.s.styles, w, h, "There is no trace with this id", "No request has it either. Traces are kept as long as the control plane is told to.")
	case t.find:
		return centred(t.s.styles, w, h, "The trace cannot be shown", userMessage(t.full.err))
	}
	lines := drawFields(t.s.styles, t.fields(), w)
	lines = append(lines, "")
	lines = append(lines, t.waterfall(w)...)
	return t.scroll.show(lines, h)
}

// drawFields draws names and values in as many columns as fit. Long values
// are not truncated: they take a line of their own and wrap.
func drawFields(p *styles, fields []field, w int) []string {
	columns := min(3, max(1, (w-1)/38))
	each := (w - 1) / columns
	var lines []string
	var l line
	n := 0
	flush := func() {
		if n > 0 {
			lines = append(lines, l.fit(w))
			l, n = line{}, 0
		}
	}
	for _, f := range fields {
		name := " " + fit(f.name, nameWidth, false) + " "
		if f.wide || width(f.value) > each-width(name)-1 {
			flush()
			for i, part := range wrap(f.value, w-width(name)-1) {
				if i > 0 {
					name = blanks(width(name))
				}
				var one line
				one.add(p.dim, name)
				one.add(f.style, part)
				lines = append(lines, one.fit(w))
			}
			continue
		}
		l.add(p.dim, name)
		l.add(f.style, fit(f.value, each-width(name), false))
		if n++; n == columns {
			flush()
		}
	}
	flush()
	return lines
}
