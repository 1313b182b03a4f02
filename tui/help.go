package tui

import (
	tea "github.com/charmbracelet/bubbletea"
)

// helpPage lists the keys, first those of the page that help was opened on.
type helpPage struct {
	s      *shared
	of     page
	scroll scroller
}

func newHelpPage(s *shared, of page) *helpPage { return &helpPage{s: s, of: of} }

// section is a part of the help.
type section struct {
	title string
	keys  []hint
}

func (t *helpPage) sections() []section {
	var own []hint
	for _, h := range t.of.hints() {
		if h.key != "tab" && h.key != "↑↓" {
			own = append(own, h)
		}
	}
	var first []section
	if _, ok := t.of.(*tracesPage); !ok { // the traces have a separate section below
		first = []section{{t.of.title(), own}}
	}
	return append(first, []section{
		{"Traces", []hint{
			{"p, space", "pause; what comes in waits and is counted"},
			{"/", "filter while you type"},
			{"e", "only errors, and all again"},
			{"a", "only the agent of the selected trace"},
			{"w", "those of a time: last 2h, yesterday, 14:00..15:00"},
			{"↑ on the first row", "older ones, from the control plane"},
			{"enter", "open; ← → for the one before and after"},
			{"y", "copy the id; c in a trace copies it as JSON"},
		}},
		{"Filters", []hint{
			{"agent:x tool:y", "both must hold; part of a name is enough"},
			{"status:error,blocked", "one of ok, error, blocked, failed"},
			{`tool:"delete order"`, "quotes keep blanks"},
			{"-env:staging", "minus turns a term around"},
			{"ms:>500 cost:<0.01", "figures: ms, cost (dollars), score (injection)"},
			{"since:2h until:14:00", "a time; also yesterday, 2026-11-30T14:00"},
			{"session:=ses_1", "the whole field: found far back as well"},
			{"refund", "a word alone is looked for everywhere"},
			{"fields", "agent status tool model env policy pii session"},
			{"", "rule why principal client request id"},
		}},
		{"Everywhere", append(screenKeys(t.s), []hint{
			{"enter", "open the selected row"},
			{"esc", "back; clears the filter"},
			{"t", "the traces of the selected row"},
			{"i", "jump to the id of a trace, a request, an approval, a policy…"},
			{"y", "copy the id"},
			{"r", "refresh; connect now"},
			{"?", "this help"},
			{"q, ctrl+c", "quit"},
		}...)},
		{"Moving", []hint{
			{"↑ ↓, k j", "one line"},
			{"pgup pgdn", "one page, as ctrl+b ctrl+f"},
			{"ctrl+u ctrl+d", "half a page"},
			{"home end, g G", "the first, the last"},
			{"mouse", "the wheel scrolls, a click selects, a second one opens"},
		}},
	}...)
}

func (t *helpPage) title() string             { return "Help" }
func (t *helpPage) enter() tea.Cmd            { return nil }
func (t *helpPage) leave()                    {}
func (t *helpPage) tick() tea.Cmd             { return nil }
func (t *helpPage) click(int, int) tea.Cmd    { return nil }
func (t *helpPage) wheel(by int)              { t.scroll.move(by) }
func (t *helpPage) footer(int) (string, bool) { return "", false }
func (t *helpPage) key(k tea.KeyMsg) tea.Cmd  { t.scroll.key(k.String()); return nil }
func (t *helpPage) hints() []hint             { return []hint{{"esc", "back"}, {"↑↓", "scroll"}} }
func (t *helpPage) status(w int) string {
	return t.s.styles.bold.paint(cut(" Keys and filters", w))
}

func (t *helpPage) view(w, h int) []string {
	columns := 1
	if w >= 130 {
		columns = 2
	}
	each := w / columns
	sides := make([][]string, columns)
	for _, s := range t.sections() {
		// The next section goes into the shorter column.
		to := 0
		if columns == 2 && len(sides[1]) < len(sides[0]) {
			to = 1
		}
		sides[to] = append(sides[to], t.draw(s, each)...)
	}
	if columns == 1 {
		return t.scroll.show(sides[0], h)
	}
	var lines []string
	for i := range max(len(sides[0]), len(sides[1])) {
		left, right := "", ""
		if i < len(sides[0]) {
			left = sides[0][i]
		}
		if i < len(sides[1]) {
			right = sides[1][i]
		}
		lines = append(lines, left+right)
	}
	return t.scroll.show(lines, h)
}

// draw draws a section, each line exactly w cells wide.
func (t *helpPage) draw(s section, w int) []string {
	p := t.s.styles
	lines := []string{blanks(w), p.bold.paint(fit(" "+s.title, w, false))}
	for _, k := range s.keys {
		name := "   " + fit(k.key, min(22, w/3), false) + " "
		lines = append(lines, p.accent.paint(name)+p.dim.paint(fit(k.does, w-width(name), false)))
	}
	return lines
}
