package tui

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// The size of the smallest supported terminal.
const (
	minWidth  = 30
	minHeight = 7
)

// Model is the program: tabs, one visible page, and the feed.
type Model struct {
	s       *shared
	feed    *feed
	traces  *tracesPage
	screens []screen
	pages   []page // pages of the screens
	active  int
	stack   []page // pages opened over the active one
	help    *helpPage
	prompt  *prompt // the text that is being asked for; nil for none

	pulse *pulse    // nil without a control plane
	waits time.Time // since when the control plane does not answer; zero when it does
	state feedState
	w, h  int
	tabs  []tabRange // positions of the tabs, as last drawn
	body  int        // the line at which the page begins
}

// tabRange is the clickable range of a tab.
type tabRange struct{ from, to, page int }

// New returns the program as a model; its requests end with ctx. Most callers
// need [Run].
func New(ctx context.Context, o Options) *Model {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	s := &shared{
		ctx: ctx, plane: o.Plane, name: clean(o.Name), now: o.Now, timeout: o.Timeout, copy: o.Copy,
		styles: newStyles(o.Output, o.Colour, o.Theme, nil),
	}
	m := newModel(s, newFeed(ctx, o.Source, o.Timeout, o.Now))
	if o.Plane != nil {
		m.pulse = newPulse(ctx, o.Plane.Alive, o.Timeout, o.Now)
	}
	m.traces.setFilter(o.Filter)
	return m
}

func newModel(s *shared, f *feed) *Model {
	m := &Model{s: s, feed: f, traces: newTracesPage(s)}
	m.screens = available(s)
	for _, sc := range m.screens {
		m.pages = append(m.pages, sc.page(m, sc.title))
	}
	s.open = func(p page) tea.Cmd {
		s.toast = ""
		m.current().leave()
		m.stack = append(m.stack, p)
		return p.enter()
	}
	s.back = func() { m.closeTop() }
	s.ask = func(p *prompt) { s.toast, m.prompt = "", p }
	s.show = func(filter string) tea.Cmd {
		cmd := m.switchTo(slices.Index(m.pages, page(m.traces)))
		m.traces.setFilter(filter)
		return cmd
	}
	return m
}

// current returns the visible page.
func (m *Model) current() page {
	switch {
	case m.help != nil:
		return m.help
	case len(m.stack) > 0:
		return m.stack[len(m.stack)-1]
	}
	return m.pages[m.active]
}

// tick comes twice a second, for countdowns, refreshes and the end of
// messages, and for requests without an answer.
type tick struct{}

func (m *Model) nextTick() tea.Cmd {
	return func() tea.Msg {
		timer := time.NewTimer(slowAnswer)
		defer timer.Stop()
		select {
		case <-m.s.ctx.Done():
			return nil
		case <-timer.C:
			return tick{}
		}
	}
}

// Init starts the feed.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.feed.run, m.feed.next, m.nextTick(), m.current().enter()}
	if m.pulse != nil {
		cmds = append(cmds, m.pulse.run, m.pulse.next)
	}
	return tea.Batch(cmds...)
}

// Update handles one message. It never blocks.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case batch:
		m.applyBatch(msg)
		return m, m.feed.next
	case result:
		return m, msg()
	case waitsSince:
		m.waits = time.Time(msg)
		return m, m.pulse.next
	case tick:
		return m, tea.Batch(m.nextTick(), m.current().tick())
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
	case tea.KeyMsg:
		return m, m.keys(msg)
	case tea.MouseMsg:
		return m, m.mouse(tea.MouseEvent(msg))
	}
	return m, nil
}

func (m *Model) applyBatch(b batch) {
	m.state = b.state
	if b.reset {
		m.traces.clear()
	}
	m.traces.add(b.rows)
	m.traces.dropped = b.dropped
}

// keys handles a message with several keys as single keys. Pasted text is
// only handled where text can be typed.
func (m *Model) keys(k tea.KeyMsg) tea.Cmd {
	typing := m.typing()
	if k.Alt && k.Type == tea.KeyRunes && !typing {
		// esc and a key that arrived together are read as alt; no key of this
		// program uses alt.
		k.Alt = false
		return tea.Batch(m.key(tea.KeyMsg{Type: tea.KeyEsc}), m.keys(k))
	}
	if k.Type != tea.KeyRunes || len(k.Runes) < 2 || k.Alt {
		return m.key(k)
	}
	if k.Paste && !typing {
		return nil
	}
	var cmds []tea.Cmd
	for _, r := range k.Runes {
		cmds = append(cmds, m.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}))
	}
	return tea.Batch(cmds...)
}

// key handles a key: text goes to the page in which text is being typed;
// otherwise the keys of the program take precedence over those of the page.
func (m *Model) key(k tea.KeyMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	if m.prompt != nil {
		return m.promptKey(k)
	}
	if m.typing() {
		return m.current().key(k)
	}
	switch name {
	case "i":
		return m.askID()
	case "q":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "?":
		if m.help != nil {
			m.help = nil
			return nil
		}
		m.help = newHelpPage(m.s, m.current())
		return nil
	case "r":
		if m.state.phase == waiting {
			m.feed.retry()
		}
	case "esc":
		if m.closeTop() {
			return nil
		}
	case "tab":
		return m.switchTo((m.active + 1) % len(m.pages))
	case "shift+tab":
		return m.switchTo((m.active + len(m.pages) - 1) % len(m.pages))
	}
	for i, sc := range m.screens {
		if sc.key != "" && name == sc.key || name == strconv.Itoa(i+1) {
			return m.switchTo(i)
		}
	}
	return m.current().key(k)
}

// typing reports whether keys are text.
func (m *Model) typing() bool {
	_, typing := m.current().footer(m.w)
	return typing || m.prompt != nil
}

// closeTop closes the top page; it reports whether there was one.
func (m *Model) closeTop() bool {
	switch {
	case m.help != nil:
		m.help = nil
	case len(m.stack) > 0:
		m.current().leave()
		m.stack = m.stack[:len(m.stack)-1]
	default:
		return false
	}
	return true
}

func (m *Model) switchTo(i int) tea.Cmd {
	m.s.toast = "" // the message was about the previous screen
	for m.closeTop() {
	}
	if i == m.active {
		return m.current().tick()
	}
	m.current().leave()
	m.active = i
	return m.current().enter()
}

func (m *Model) mouse(e tea.MouseEvent) tea.Cmd {
	if m.typing() {
		return nil
	}
	switch {
	case e.Button == tea.MouseButtonWheelUp:
		m.current().wheel(-3)
		return m.current().tick()
	case e.Button == tea.MouseButtonWheelDown:
		m.current().wheel(3)
	case e.Button == tea.MouseButtonLeft && e.Action == tea.MouseActionPress:
		if e.Y == 0 {
			for _, t := range m.tabs {
				if e.X >= t.from && e.X < t.to {
					return m.switchTo(t.page)
				}
			}
			return nil
		}
		if e.Y >= m.body && e.Y < m.h-1 {
			return m.current().click(e.X, e.Y-m.body)
		}
	}
	return nil
}

// View draws the screen: tabs, the problem of the feed, a status line, the
// page, the keys.
func (m *Model) View() string {
	if m.w <= 0 || m.h <= 0 {
		return ""
	}
	if m.w < minWidth || m.h < minHeight {
		return m.tooSmall()
	}
	lines := make([]string, 0, m.h)
	lines = append(lines, m.tabBar())
	if b := m.banner(); b != "" {
		lines = append(lines, b)
	}
	page := m.current()
	lines = append(lines, page.status(m.w))
	m.body = len(lines)
	room := m.h - 1 - len(lines)
	body := page.view(m.w, room)
	lines = append(lines, body[:min(len(body), room)]...)
	for len(lines) < m.h-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.footer())
	return strings.Join(lines, "\n")
}

func (m *Model) tooSmall() string {
	var lines []string
	for _, l := range wrap("svc needs 30 columns and 7 lines. q quits.", m.w) {
		if len(lines) < m.h {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}
