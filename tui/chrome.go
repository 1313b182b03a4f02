package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"svc/server/display"
)

// tabBar draws the tabs on the left, and on the right the watched source with
// the state of the connection. When there is no room for the names of the
// tabs, it shows their numbers, and then only the name of the active tab.
func (m *Model) tabBar() string {
	p := m.s.styles
	state, stateStyle := m.connection()
	m.tabs = m.tabs[:0]
	name := func(i int) string { return strconv.Itoa(i+1) + " " + m.pages[i].title() }
	labels := make([]string, len(m.pages))
	total := 0
	for i := range m.pages {
		labels[i] = " " + name(i) + " "
		total += width(labels[i])
	}
	const brand = " svc "
	if left := m.w - width(brand) - width(state) - 2; total > left {
		for i := range labels {
			if i != m.active {
				labels[i] = " " + strconv.Itoa(i+1) + " "
			}
		}
	}
	var b strings.Builder
	b.WriteString(p.bold.paint(brand))
	x := width(brand)
	for i, label := range labels {
		if x+width(label) > m.w {
			break
		}
		style := p.dim
		if i == m.active {
			style = p.tab
			if style.on == "" { // without color, brackets mark the active tab
				label = "[" + strings.TrimSpace(label) + "]"
			}
		}
		b.WriteString(style.paint(label))
		m.tabs = append(m.tabs, tabRange{x, x + width(label), i})
		x += width(label)
	}
	room := m.w - x - 2
	if room < 1 {
		return b.String()
	}
	if width(state) > room {
		state = firstRune(state) // only the sign
	}
	where := ""
	if left := room - width(state) - 2; left >= 12 && total <= m.w-width(brand)-width(state)-2 {
		where = cut(m.s.name, min(left, 60))
	}
	gap := m.w - x - width(state) - 1
	if where != "" {
		gap -= width(where) + 2
		b.WriteString(blanks(gap))
		b.WriteString(p.dim.paint(where) + "  ")
	} else {
		b.WriteString(blanks(gap))
	}
	b.WriteString(stateStyle.paint(state))
	return b.String()
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return s
}

func (m *Model) connectionText() string {
	switch m.state.phase {
	case live:
		if !m.waits.IsZero() {
			return "○ waiting"
		}
		return "● live"
	case waiting:
		return "✕ offline"
	}
	return "○ connecting"
}

// connection returns the state of the feed as a text.
func (m *Model) connection() (string, style) {
	style := m.s.styles.warn
	switch m.state.phase {
	case live:
		if m.waits.IsZero() {
			style = m.s.styles.good
		}
	case waiting:
		style = m.s.styles.alert
	}
	return m.connectionText(), style
}

func (m *Model) countdown() string {
	return display.Span(max(m.state.retryAt.Sub(m.s.now()), 0).Truncate(time.Second) + time.Second)
}

// leastReason is the least width of the reason for which the time of the next
// attempt is shown as well.
const leastReason = 24

// banner is the line with the reason why no new traces arrive.
func (m *Model) banner() string {
	if m.state.phase == live || m.state.attempt == 0 {
		if m.waits.IsZero() {
			return ""
		}
		text := fmt.Sprintf(" ○ No answer since %s, for %s: waiting for the control plane", m.waits.UTC().Format("15:04:05 UTC"), display.Span(m.s.now().Sub(m.waits)))
		return m.s.styles.warn.paint(cut(text, m.w))
	}
	text := " ✕ Not connected"
	if m.state.err != nil {
		text += ": " + userMessage(m.state.err)
	}
	tail := " · connecting again"
	if m.state.phase == waiting {
		tail = fmt.Sprintf(" · attempt %d in %s, r retries now", m.state.attempt+1, m.countdown())
		if width(text)+width(tail) > m.w {
			tail = " · again in " + m.countdown() + ", r retries now"
		}
		if leastReason+width(tail) > m.w {
			tail = " · r retries now"
		}
	}
	if width(text)+width(tail) > m.w {
		text = cut(text, max(0, m.w-width(tail)))
	}
	return m.s.styles.alert.paint(cut(text+tail, m.w))
}

// footer draws the page's question, or a message, or the keys that fit; the
// keys for help and quit are always shown.
func (m *Model) footer() string {
	p := m.s.styles
	page := m.current()
	if m.prompt != nil {
		return m.prompt.draw(p, m.w)
	}
	if line, _ := page.footer(m.w); line != "" {
		return line
	}
	if m.s.toast != "" && m.s.now().Before(m.s.toastTill) {
		return m.s.toastStyle.paint(cut(" "+m.s.toast, m.w))
	}
	last := []hint{{"?", "help"}, {"q", "quit"}}
	size := func(h hint) int { return 1 + width(h.key) + 1 + width(h.does) + 1 }
	left := m.w
	for _, h := range last {
		left -= size(h)
	}
	var b strings.Builder
	write := func(h hint) {
		b.WriteString(" " + p.accent.paint(h.key) + " " + p.dim.paint(h.does) + " ")
	}
	for _, h := range page.hints() {
		if size(h) > left {
			break
		}
		left -= size(h)
		write(h)
	}
	if left < 0 {
		return ""
	}
	for _, h := range last {
		write(h)
	}
	return b.String()
}
