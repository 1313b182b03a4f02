package tui

import (
	"context"
	"errors"
	"io"
	"time"

	_ "background.invalid" // before bubbletea, which otherwise asks the terminal in its init
	tea "github.com/charmbracelet/bubbletea"
)

// Options are the source, the control plane and the terminal.
type Options struct {
	// Source is the source of traces; required.
	Source Source
	// Plane has the data of the other screens; without it there are only traces
	// and statistics computed from them.
	Plane Plane
	// Name is the watched URL or file, for the title.
	Name string

	// Input and Output are the terminal.
	Input  io.Reader
	Output io.Writer
	// Colour enables colors. No information is shown by color alone.
	Colour bool
	// Theme is the background of the terminal; empty means Auto.
	Theme Theme
	// Mouse enables clicks on rows and tabs; the terminal's own text selection
	// then needs the shift key.
	Mouse bool
	// Copy copies a text to the clipboard; nil when there is none.
	Copy func(string) error

	// Filter is the initial filter; see CheckFilter.
	Filter string
	// Timeout bounds each request; 0 means 10 s.
	Timeout time.Duration
	// Now is the clock, in the time zone of displayed times; nil means time.Now.
	Now func() time.Time
}

// Run shows the screens until the user quits or ctx ends, and restores the
// terminal, also after a panic. Requests in flight are canceled.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := New(ctx, o)
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.Input), tea.WithOutput(o.Output), tea.WithAltScreen()}
	if o.Mouse {
		options = append(options, tea.WithMouseCellMotion())
	}
	_, err := tea.NewProgram(m, options...).Run()
	cancel()
	if errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrProgramPanic) || errors.Is(err, tea.ErrInterrupted) {
		return nil // ended by ctx
	}
	return err
}

// historySize is the number of traces in memory.
const historySize = 10_000

// shared is used by all screens.
type shared struct {
	ctx     context.Context
	plane   Plane
	name    string
	styles  *styles
	now     func() time.Time
	timeout time.Duration
	copy    func(string) error
	// inline runs requests synchronously within Update: for drawing without a
	// program.
	inline bool

	toast      string
	toastStyle style
	toastTill  time.Time
	// open opens a page over the current one; back closes it; show switches to
	// the traces with a filter.
	open func(page) tea.Cmd
	back func()
	show func(filter string) tea.Cmd
	// ask opens a prompt at the bottom.
	ask func(*prompt)
}

// notify shows a message at the bottom for a few seconds.
func (s *shared) notify(p style, text string) {
	s.toast, s.toastStyle, s.toastTill = text, p, s.now().Add(4*time.Second)
}

// hint is a key with its description.
type hint struct{ key, does string }

// page is one screen.
type page interface {
	title() string
	// enter is called when the page becomes visible, leave when it is hidden;
	// leave cancels its request.
	enter() tea.Cmd
	leave()
	// tick is called twice a second while the page is visible, and after the wheel was turned.
	tick() tea.Cmd
	key(k tea.KeyMsg) tea.Cmd
	// The coordinates of click and wheel are relative to the page.
	click(x, y int) tea.Cmd
	wheel(by int)
	// status is one line above the page.
	status(w int) string
	view(w, h int) []string
	// footer replaces the hints at the bottom; while it is not empty, all keys
	// go to the page.
	footer(w int) (line string, typing bool)
	hints() []hint
}
