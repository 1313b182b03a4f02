package tui

import (
	"context"
	"fmt"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// policiesPage shows policies with the number of times they fired, and can enable
// and disable them.
type policiesPage struct {
	tablePage[api.Policy]
	asked    *api.Policy // the policy that a confirmation would enable or disable
	changing bool
	visible  bool
	readOnly bool // whether the key lacks the permission to change policies
}

func newPoliciesPage(s *shared, title string) *policiesPage {
	t := &policiesPage{}
	p := s.styles
	text := func(get func(api.Policy) string) func(api.Policy, int) (string, style) {
		return func(r api.Policy, _ int) (string, style) {
			if !r.Enabled {
				return get(r), p.dim
			}
			return get(r), p.plain
		}
	}
	columns := []column[api.Policy]{
		{title: "STATE", min: 5, priority: 95, cell: func(r api.Policy, _ int) (string, style) {
			if r.Enabled {
				return "● on", p.good
			}
			return "○ off", p.dim
		}},
		{title: "NAME", min: 18, max: 50, priority: 100, cell: text(func(r api.Policy) string { return clean(r.Name) })},
		{title: "PHASE", min: 8, priority: 88, cell: text(func(r api.Policy) string { return clean(r.Phase) })},
		{title: "ACTION", min: 15, max: 17, priority: 90, cell: func(r api.Policy, _ int) (string, style) { return clean(display.Action(&r)), p.action(r) }},
		{title: "WHEN", min: 12, max: 60, priority: 70, cell: text(func(r api.Policy) string { return clean(display.Condition(&r.Condition)) })},
		{title: "AGENT", min: 8, max: 28, priority: 50, cell: text(func(r api.Policy) string { return clean(display.OnAgent(r.On)) })},
		{title: "FIRED", min: 6, right: true, priority: 80, cell: text(func(r api.Policy) string { return display.Count(r.FireCount) })},
		{title: "", min: 10, max: 40, priority: 30, cell: func(r api.Policy, w int) (string, style) {
			most := int64(1)
			for _, other := range t.load.data.rows {
				most = max(most, other.FireCount)
			}
			return bar(float64(r.FireCount)/float64(most), w), p.action(r)
		}},
		{title: "CHANGED", min: 17, priority: 20, cell: text(func(r api.Policy) string { return minute(r.UpdatedAt) })},
	}
	detail := func(r api.Policy) []field {
		state := "off"
		if r.Enabled {
			state = "on"
		}
		return []field{
			{name: "Policy", value: clean(r.Name), wide: true},
			{name: "When", value: clean(display.Condition(&r.Condition)) + ", in the " + clean(r.Phase), wide: true},
			{name: "Action", value: clean(display.Action(&r)), style: p.action(r)},
			{name: "Agent", value: clean(display.OnAgent(r.On))},
			{name: "State", value: state + ", fired " + display.Count(r.FireCount) + " times"},
			{name: "Changed", value: minute(r.UpdatedAt)},
			{name: "Id", value: clean(r.ID), wide: true},
		}
	}
	t.init(s, title, t, table[api.Policy]{
		noun:  "policies",
		empty: [2]string{"No policies yet", "For example: svc policies add-template pii-protection"},
		id:    func(r api.Policy) string { return r.ID },
		fetch: func(ctx context.Context) (listed[api.Policy], error) {
			page, err := s.plane.ListPolicies(ctx, client.PolicyQuery{Page: client.Page{Limit: api.MaxLimit}})
			return listed[api.Policy]{page.Data, page.Total}, err
		},
		every:      10 * time.Second,
		columns:    columns,
		detail:     detail,
		traces:     func(r api.Policy) string { return "policy:" + quoted(clean(r.Name)) },
		tracesHint: "its traces",
	})
	return t
}

// action colors the action of a policy; a disabled policy has no color.
func (p *styles) action(r api.Policy) style {
	switch {
	case !r.Enabled:
		return p.dim
	case r.Action == "block":
		return p.block
	case r.Action == "redact":
		return p.accent
	}
	return p.warn
}

func (t *policiesPage) enter() tea.Cmd {
	t.visible = true
	return t.tablePage.enter()
}

// leave discards an open question. A confirmed change is not canceled, because its
// result would be unknown.
func (t *policiesPage) leave() {
	t.asked, t.visible = nil, false
	t.tablePage.leave()
}

func (t *policiesPage) key(k tea.KeyMsg) tea.Cmd {
	if t.asked != nil {
		return t.answer(k.String())
	}
	if k.String() == "d" {
		return t.ask()
	}
	return t.tablePage.key(k)
}

// ask asks for a confirmation to enable or disable the selected policy.
func (t *policiesPage) ask() tea.Cmd {
	r, ok := t.selected()
	switch {
	case !ok || !t.load.have || t.changing:
	case t.readOnly:
		t.s.notify(t.s.styles.warn, "this key may not change policies")
	default:
		t.asked = &r
	}
	return nil
}

func (t *policiesPage) answer(k string) tea.Cmd {
	r := *t.asked
	switch k {
	case "y", "Y":
		t.asked = nil
		return t.toggle(r)
	case "n", "N", "esc", "enter", "q":
		t.asked = nil
		t.s.notify(t.s.styles.dim, "nothing was changed")
	}
	return nil
}

func (t *policiesPage) toggle(r api.Policy) tea.Cmd {
	on := !r.Enabled
	ctx, cancel := context.WithTimeout(t.s.ctx, t.s.timeout)
	t.changing = true
	cmd := func() tea.Msg {
		p, err := t.s.plane.UpdatePolicy(ctx, r.ID, api.PolicyUpdate{Enabled: &on})
		cancel()
		return result(func() tea.Cmd { return t.changed(r, on, p.Warnings, err) })
	}
	if t.s.inline {
		return cmd().(result)()
	}
	return cmd
}

func (t *policiesPage) changed(r api.Policy, on bool, warnings []string, err error) tea.Cmd {
	t.changing = false
	what := map[bool]string{true: "enabled", false: "disabled"}[on]
	switch {
	case forbidden(err):
		t.readOnly = true
		t.s.notify(t.s.styles.bad, "this key may not change policies (403): nothing was changed")
		return nil
	case err != nil:
		t.s.notify(t.s.styles.bad, fmt.Sprintf("%s could not be %s: %s", clean(r.Name), what, userMessage(err)))
		return nil
	}
	style, text := t.s.styles.good, clean(r.Name)+" is "+what
	if on && len(warnings) > 0 {
		style, text = t.s.styles.bad, text+firstOf(warnings)
	}
	t.s.notify(style, text)
	if !t.visible {
		return nil
	}
	return t.load.load(t.s)
}

// firstOf returns the number of warnings and the first one, because the status
// line has room for one; its end may be truncated.
func firstOf(warnings []string) string {
	first := clean(warnings[0])
	if n := len(warnings); n > 1 {
		return fmt.Sprintf(", with %d warnings; the first: %s", n, first)
	}
	return ", but " + first
}

func (t *policiesPage) footer(w int) (string, bool) {
	if t.asked == nil {
		return "", false
	}
	r, verb := *t.asked, "Enable"
	if r.Enabled {
		verb = "Disable"
	}
	tail := " [y/N] "
	text := fmt.Sprintf(" %s %s (%s, %s)?", verb, clean(r.Name), clean(display.Action(&r)), clean(display.Condition(&r.Condition)))
	return t.s.styles.badge.paint(cut(text, w-width(tail)) + tail), true
}

func (t *policiesPage) hints() []hint {
	if r, ok := t.selected(); ok && !t.readOnly {
		return t.hintsWith(hint{"d", map[bool]string{true: "disable", false: "enable"}[r.Enabled]})
	}
	return t.hintsWith()
}
