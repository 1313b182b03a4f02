package tui

import (
	"context"
	"errors"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Options are the source, the control plane and the terminal.
type Options struct {
	// Source is where traces come from; required.
	Source Source
	// Plane answers what the other screens show; without one there are only
	// traces and what can be summed up from them.
	Plane Plane
	// Name is what is watched, a URL or a file, for the title.
	Name string

	// Input and Output are the terminal.
	Input  io.Reader
	Output io.Writer
	// Colour allows colors; nothing is shown by color alone.
	Colour bool
	// Theme is the background of the terminal; empty means Auto.
	Theme Theme
	// Mouse lets rows and tabs be clicked; the terminal's own selection of text
	// then needs the shift key.
	Mouse bool
	// Copy puts a text on the clipboard; nil where there is none.
	Copy func(string) error

	// Filter is in force from the start; see CheckFilter.
	Filter string
	// Timeout bounds each request; 0 means 10 s.
	Timeout time.Duration
	// Now is the clock, in the zone that times are shown in; nil means time.Now.
	Now func() time.Time
}

// Run shows the screens until the user leaves or ctx ends, and gives the
// terminal back, also after a panic. Requests in flight are canceled.
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
		return nil // stopped from outside
	}
	return err
}

// historySize is how many traces are remembered.
const historySize = 10_000

// shared is what the screens have in common.
type shared struct {
	ctx     context.Context
	plane   Plane
	name    string
	styles  *styles
	now     func() time.Time
	timeout time.Duration
	copy    func(string) error
	// inline answers requests within Update: for drawing without a program.
	inline bool

	toast      string
	toastStyle style
	toastTill  time.Time
	// open shows a screen over the current one; back leaves it; show switches
	// to the traces with a filter.
	open func(page) tea.Cmd
	back func()
	show func(filter string) tea.Cmd
}

// notify shows a message at the bottom for a few seconds.
func (s *shared) notify(p style, text string) {
	s.toast, s.toastStyle, s.toastTill = text, p, s.now().Add(4*time.Second)
}

// hint is a key and what it does.
type hint struct{ key, does string }

// page is one screen.
type page interface {
	title() string
	// enter is called when the page becomes visible, leave when it is hidden:
	// then it has no request in flight.
	enter() tea.Cmd
	leave()
	// tick comes once a second while the page is visible.
	tick() tea.Cmd
	key(k tea.KeyMsg) tea.Cmd
	// click and wheel have their place relative to the page.
	click(x, y int) tea.Cmd
	wheel(by int)
	// status is one line above the page.
	status(w int) string
	view(w, h int) []string
	// footer is what the page has at the bottom in place of hints; while it is
	// there, keys are for the page alone.
	footer(w int) (line string, typing bool)
	hints() []hint
}
