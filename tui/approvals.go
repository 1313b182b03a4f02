package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// approvalsPage lists the calls that a person decides about, with one status or all of them.
type approvalsPage struct {
	tablePage[api.ApprovalRecord]
	only string // "" for all
}

func newApprovalsPage(s *shared, title string) *approvalsPage {
	t := &approvalsPage{}
	p := s.styles
	text := func(get func(api.ApprovalRecord) string) func(api.ApprovalRecord, int) (string, style) {
		return func(r api.ApprovalRecord, _ int) (string, style) { return clean(get(r)), p.plain }
	}
	columns := []column[api.ApprovalRecord]{
		{title: "STATE", min: 9, priority: 95, cell: func(r api.ApprovalRecord, _ int) (string, style) { return p.approval(r.Status) }},
		{title: "AGE", min: 15, max: 18, priority: 85, cell: func(r api.ApprovalRecord, _ int) (string, style) {
			return display.OrDash(display.ApprovalAge(&r, s.now())), p.dim
		}},
		{title: "TOOL", min: 16, max: 50, priority: 100, cell: text(func(r api.ApprovalRecord) string { return r.Tool })},
		{title: "PRINCIPAL", min: 14, max: 40, priority: 90, cell: text(func(r api.ApprovalRecord) string { return r.Principal })},
		{title: "AGENT", min: 10, max: 28, priority: 70, cell: text(func(r api.ApprovalRecord) string { return r.AgentName })},
		{title: "SELF CHECK", min: 10, priority: 80, cell: func(r api.ApprovalRecord, _ int) (string, style) { return p.selfCheck(r.SelfCheck) }},
		{title: "REASONS", min: 12, max: 40, priority: 60, cell: text(reasonsOf)},
		{title: "GATEWAY", min: 10, max: 24, priority: 40, cell: text(func(r api.ApprovalRecord) string { return r.Gateway })},
		{title: "REQUESTED", min: 17, priority: 30, cell: func(r api.ApprovalRecord, _ int) (string, style) { return minute(r.CreatedAt), p.dim }},
	}
	t.init(s, title, t, table[api.ApprovalRecord]{
		id: func(r api.ApprovalRecord) string { return r.ID },
		fetch: func(ctx context.Context) (listed[api.ApprovalRecord], error) {
			if t.only == api.ApprovalPending || t.only == api.ApprovalGranted { // all that can be decided about
				all, err := client.AllApprovals(ctx, s.plane.ListApprovals, t.only)
				return listed[api.ApprovalRecord]{all, len(all)}, err
			}
			page, err := s.plane.ListApprovals(ctx, client.ApprovalQuery{Page: client.Page{Limit: 200}, Status: t.only})
			return listed[api.ApprovalRecord]{page.Data, page.Total}, err
		},
		every:      5 * time.Second,
		columns:    columns,
		open:       func(r api.ApprovalRecord) page { return newApprovalPage(s, r.ID) },
		traces:     func(r api.ApprovalRecord) string { return "request:" + quoted(clean(r.RequestID)) },
		tracesHint: "its trace",
	})
	t.choose(api.ApprovalPending)
	return t
}

// choose lists the approvals with another status.
func (t *approvalsPage) choose(status string) {
	t.only, t.load.have = status, false
	t.noun = strings.TrimSpace(status + " approvals")
	t.empty = [2]string{"No " + t.noun, "f shows those with another status. A rule with approval: {} asks for them."}
}

func (t *approvalsPage) key(k tea.KeyMsg) tea.Cmd {
	switch name := k.String(); name {
	case "f":
		all := append(slices.Clone(api.ApprovalStatuses), "")
		t.choose(all[(slices.Index(all, t.only)+1)%len(all)])
		return t.enter()
	case "g", "d", "x": // decided where the arguments are read
		r, ok := t.selected()
		if _, may := decisionFor(name, r.Status); ok && may && t.load.have {
			opened := newApprovalPage(t.s, r.ID)
			opened.asked = decisions[name]
			return t.s.open(opened)
		}
		return nil
	}
	return t.tablePage.key(k)
}

func (t *approvalsPage) hints() []hint {
	r, ok := t.selected()
	own := []hint{{"f", "status: " + cmp.Or(t.only, "all")}}
	if ok {
		own = append(own, decisionHints(r.Status)...)
	}
	return t.hintsWith(own...)
}

// decisions are the keys of decisions.
var decisions = map[string]string{"g": "grant", "d": "deny", "x": "revoke"}

// decisionFor returns the decision of a key, if it can be made about an approval with a status.
func decisionFor(key, status string) (decision string, ok bool) {
	decision = decisions[key]
	return decision, slices.Contains(display.Decisions(status), decision)
}

func decisionHints(status string) (hints []hint) {
	for _, key := range [...]string{"g", "d", "x"} {
		if decision, ok := decisionFor(key, status); ok {
			hints = append(hints, hint{key, decision})
		}
	}
	return hints
}

func reasonsOf(r api.ApprovalRecord) string {
	ids := make([]string, len(r.Reasons))
	for i, reason := range display.Reasons(&r) {
		ids[i] = reason.ID
	}
	return strings.Join(ids, ", ")
}

// approval returns the status of an approval as a word and a color.
func (p *styles) approval(status string) (string, style) {
	return p.word(display.ApprovalState(status))
}

// selfCheck colors a check that could not be made.
func (p *styles) selfCheck(check string) (string, style) {
	if check == "known" {
		return check, p.plain
	}
	return clean(check), p.warn
}

// approvalPage shows one approval with the arguments of the call, and asks for confirmation of a
// decision.
type approvalPage struct {
	s        *shared
	id       string
	load     loader[api.ApprovalRecord]
	scroll   scroller
	asked    string // the decision to confirm; "" for none
	version  int    // of the approval that was drawn when the decision was chosen
	note     textinput.Model
	typing   bool // the note
	changing bool
}

func newApprovalPage(s *shared, id string) *approvalPage {
	t := &approvalPage{s: s, id: id, note: textinput.New()}
	t.note.CharLimit = api.MaxMessage
	t.load.every = 5 * time.Second
	t.load.fetch = func(ctx context.Context) (api.ApprovalRecord, error) { return s.plane.GetApproval(ctx, id) }
	return t
}

func (t *approvalPage) title() string          { return "Approval" }
func (t *approvalPage) enter() tea.Cmd         { return t.load.load(t.s) }
func (t *approvalPage) tick() tea.Cmd          { return t.load.tick(t.s) }
func (t *approvalPage) click(int, int) tea.Cmd { return nil }
func (t *approvalPage) wheel(by int)           { t.scroll.move(by) }

// leave discards an open question. A confirmed decision is not canceled, because its result would
// be unknown.
func (t *approvalPage) leave() {
	t.asked, t.typing = "", false
	t.note.Reset()
	t.load.stop()
}

func (t *approvalPage) key(k tea.KeyMsg) tea.Cmd {
	name := k.String()
	if t.asked != "" {
		return t.answer(k)
	}
	if decision, ok := decisionFor(name, t.load.data.Status); ok && t.load.have && !t.changing {
		t.asked, t.version = decision, t.load.data.Version
		return nil
	}
	switch {
	case name == "r":
		return t.enter()
	case name == "t" && t.load.have:
		return t.s.show("request:" + quoted(clean(t.load.data.RequestID)))
	case name == "y":
		t.s.copyText("id", t.id)
	case name == "backspace":
		t.s.back()
	default:
		t.scroll.key(name)
	}
	return nil
}

// answer handles a key while a question is open. It is not confirmed before the arguments are shown.
func (t *approvalPage) answer(k tea.KeyMsg) tea.Cmd {
	name := k.String()
	if t.typing {
		switch name {
		case "enter", "esc":
			if t.typing = false; name == "esc" {
				t.note.Reset()
			}
			t.note.Blur()
		default:
			t.note, _ = t.note.Update(k)
		}
		return nil
	}
	switch name {
	case "y", "Y":
		if !t.load.have {
			return nil
		}
		decision := t.asked
		t.asked = ""
		return t.decide(decision)
	case "e":
		t.typing = true
		t.note.Focus()
	case "n", "N", "esc", "enter", "q":
		t.asked = ""
		t.note.Reset()
		t.s.notify(t.s.styles.dim, "nothing was changed")
	case "up", "down", "pgup", "pgdown":
		t.scroll.key(name)
	}
	return nil
}

func (t *approvalPage) decide(decision string) tea.Cmd {
	ctx, cancel := context.WithTimeout(t.s.ctx, t.s.timeout)
	t.changing = true
	in := api.ApprovalDecision{Decision: decision, Version: t.version, Note: strings.TrimSpace(t.note.Value())}
	t.note.Reset()
	cmd := func() tea.Msg {
		r, err := t.s.plane.DecideApproval(ctx, t.id, in)
		cancel()
		return result(func() tea.Cmd { return t.decided(decision, r, err) })
	}
	if t.s.inline {
		return cmd().(result)()
	}
	return cmd
}

func (t *approvalPage) decided(decision string, r api.ApprovalRecord, err error) tea.Cmd {
	t.changing = false
	var answer *client.Error
	switch {
	case errors.As(err, &answer) && (answer.Status == http.StatusForbidden || answer.Status == http.StatusConflict):
		// Why this key may not decide, or who was faster.
		t.s.notify(t.s.styles.bad, "not possible: "+clean(answer.Message))
	case err != nil:
		t.s.notify(t.s.styles.bad, fmt.Sprintf("%s: %s", decision, userMessage(err)))
	default:
		word, style := t.s.styles.approval(r.Status)
		t.s.notify(style, clean(r.Tool)+" for "+clean(r.Principal)+": "+word)
	}
	return t.load.load(t.s)
}

func (t *approvalPage) footer(w int) (string, bool) {
	if t.asked == "" {
		return "", false
	}
	if t.typing {
		var l line
		l.add(t.s.styles.accent, " Note: ")
		drawInput(&l, t.s.styles, &t.note, w-30)
		l.add(t.s.styles.dim, "  enter keeps it · esc clears it")
		return l.fit(w), true
	}
	r, tail := t.load.data, " [y/N] e: note "
	if note := t.note.Value(); note != "" {
		tail = cut(fmt.Sprintf(" [y/N] e: note (%s", clean(note)), w/2) + ") "
	}
	text := " Asking for the arguments…"
	if t.load.have {
		text = fmt.Sprintf(" %s %s for %s?", strings.ToUpper(t.asked[:1])+t.asked[1:], clean(r.Tool), clean(r.Principal))
	}
	return t.s.styles.badge.paint(cut(text, w-width(tail)) + tail), true
}

func (t *approvalPage) status(w int) string {
	p := t.s.styles
	var l line
	l.add(p.bold, " Approval ")
	l.add(p.accent, clean(t.id))
	if text, style := t.load.state(t.s); text != "" {
		l.add(style, " · "+text)
	}
	return l.fit(w)
}

func (t *approvalPage) hints() []hint {
	hints := append([]hint{{"esc", "back"}}, decisionHints(t.load.data.Status)...)
	return append(hints, hint{"t", "its trace"}, hint{"y", "copy id"}, hint{"r", "refresh"}, hint{"↑↓", "scroll"})
}

func (t *approvalPage) view(w, h int) []string {
	p, r := t.s.styles, t.load.data
	if !t.load.have {
		why := ""
		if t.load.err != nil {
			why = userMessage(t.load.err)
		}
		return centred(p, w, h, "Asking the control plane…", why)
	}
	if t.version == 0 {
		t.version = r.Version
	}
	state, stateStyle := p.approval(r.Status)
	if age := display.ApprovalAge(&r, t.s.now()); age != "" {
		state += ", " + age
	}
	_, checkStyle := p.selfCheck(r.SelfCheck)
	fields := []field{
		{name: "Tool", value: clean(r.Tool), wide: true},
		{name: "State", value: state, style: stateStyle},
		{name: "Principal", value: clean(r.Principal)},
		{name: "Agent", value: clean(r.AgentName)},
		{name: "Environment", value: display.OrDash(clean(r.Environment))},
		{name: "Client", value: display.OrDash(clean(r.Client))},
		{name: "Method", value: clean(r.Method)},
		{name: "Upstream", value: clean(r.Upstream)},
		{name: "Gateway", value: clean(r.Gateway)},
		{name: "Asked by", value: clean(r.RequestedBy.Name) + " " + clean(r.RequestedBy.Prefix) + "…"},
		{name: "Requested", value: minute(r.CreatedAt)},
		{name: "Self check", value: clean(display.SelfCheck(r.SelfCheck)), style: checkStyle},
	}
	if r.ExpiresAt != nil {
		fields = append(fields, field{name: "Ends", value: minute(*r.ExpiresAt)})
	}
	for _, reason := range display.Reasons(&r) {
		fields = append(fields, field{name: reason.Kind, value: clean(reason.Text()), wide: true})
	}
	for _, d := range r.Decisions {
		fields = append(fields, field{name: clean(d.Decision), value: strings.TrimSuffix(minute(d.At)+" by "+clean(d.UserID)+": "+clean(d.Note), ": "), wide: true})
	}
	lines := append(drawFields(p, fields, w), "")
	return t.scroll.show(append(lines, argumentLines(p, r, w)...), h)
}

// argumentLines draws the arguments of a call: nothing of a value is left out, and blanks stay.
func argumentLines(p *styles, r api.ApprovalRecord, w int) []string {
	lines := []string{p.bold.paint(cut(" Arguments  "+display.ArgumentsSize(&r), w))}
	for _, arg := range r.Arguments {
		name, value := broken(cmp.Or(arg.Pointer, "(all)"), w-2), broken(arg.Value, w-4)
		if len(name) == 1 && len(value) == 1 && !strings.Contains(name[0], " ") && width(name[0])+width(value[0])+4 <= w {
			lines = append(lines, p.accent.paint(" "+name[0])+"  "+value[0])
			name, value = nil, nil
		}
		for _, part := range name {
			lines = append(lines, p.accent.paint(" "+part))
		}
		for _, part := range value {
			lines = append(lines, "   "+part)
		}
		for _, note := range display.ArgumentNotes(&arg) {
			lines = append(lines, p.warn.paint(cut("   "+clean(note), w)))
		}
	}
	return lines
}

// broken cleans a text of any length and breaks it into lines of at most w cells, with its blanks.
func broken(s string, w int) (lines []string) {
	var b strings.Builder
	for part := range slices.Chunk([]rune(s), maxText/4) { // a rune has at most 4 bytes
		b.WriteString(clean(string(part)))
	}
	for s = b.String(); s != ""; {
		n := prefix(s, w)
		if n == 0 {
			return append(lines, "…")
		}
		lines, s = append(lines, s[:n]), s[n:]
	}
	return lines
}
