package tui

import (
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"svc/server/display"
)

// Theme is the background for which the colors are chosen.
type Theme string

// The themes. Auto queries the terminal, and uses COLORFGBG, or dark, when it does not respond.
const (
	Auto  Theme = "auto"
	Dark  Theme = "dark"
	Light Theme = "light"
)

// style colors text. Its two escape sequences are precomputed, so that drawing a cell
// only concatenates strings.
type style struct{ on, off string }

func (p style) paint(s string) string {
	if p.on == "" || s == "" {
		return s
	}
	return p.on + s + p.off
}

// withBackground colors a text differently with the background of this style.
func (p style) withBackground(fore style, s string) string {
	if p.on == "" || fore.on == "" {
		return s
	}
	return fore.on + s + p.on
}

// styles are all colors of the screen, by meaning.
type styles struct {
	plain, bold, dim, faint style // text: normal, titles, less important, lines
	accent                  style // active item
	good, warn, bad, block  style // outcomes
	selected, tab, badge    style // bars
	alert                   style // something needs attention
}

// level returns the color of a level.
func (p *styles) level(l display.Level) style {
	switch l {
	case display.Good:
		return p.good
	case display.Warn:
		return p.warn
	case display.Bad:
		return p.bad
	case display.Dim:
		return p.dim
	}
	return p.plain
}

// word returns a value in words with its color.
func (p *styles) word(w display.Word) (string, style) { return clean(w.Text), p.level(w.Level) }

// hue is one color in all color depths of terminals.
func hue(light, light256, light16, dark, dark256, dark16 string) lipgloss.CompleteAdaptiveColor {
	return lipgloss.CompleteAdaptiveColor{
		Light: lipgloss.CompleteColor{TrueColor: light, ANSI256: light256, ANSI: light16},
		Dark:  lipgloss.CompleteColor{TrueColor: dark, ANSI256: dark256, ANSI: dark16},
	}
}

var (
	hueGrey   = hue("#57606A", "241", "8", "#9198A1", "247", "7")
	hueLine   = hue("#AFB8C1", "249", "7", "#4A525C", "239", "8")
	hueAccent = hue("#0757BA", "26", "4", "#6CB6FF", "75", "12")
	hueGood   = hue("#116329", "28", "2", "#57C785", "78", "10")
	hueWarn   = hue("#8A5A00", "94", "3", "#E3B341", "179", "11")
	hueBad    = hue("#B62324", "124", "1", "#FF7B72", "203", "9")
	hueBlock  = hue("#7A2FBE", "91", "5", "#D2A8FF", "183", "13")
	hueOn     = hue("#FFFFFF", "231", "15", "#0D1117", "233", "0")
	hueSelect = hue("#DCE9F8", "153", "7", "#1F3A5F", "24", "4")
	hueSelTxt = hue("#0B1B2B", "233", "0", "#F0F6FC", "255", "15")
)

// newStyles returns the colors for an output. Without color they are empty, because
// everything is also shown by words or signs.
func newStyles(out io.Writer, colour bool, theme Theme, profile *termenv.Profile) *styles {
	if !colour {
		return &styles{}
	}
	r := lipgloss.NewRenderer(out)
	if profile != nil {
		r.SetColorProfile(*profile)
	}
	r.SetHasDarkBackground(theme == Dark || theme != Light && darkBackground(out))
	of := func(s lipgloss.Style) style {
		on, off, ok := strings.Cut(s.Render("x"), "x")
		if !ok {
			return style{}
		}
		return style{on, off}
	}
	fg := func(c lipgloss.TerminalColor) style { return of(r.NewStyle().Foreground(c)) }
	bar := func(front, back lipgloss.TerminalColor) style {
		return of(r.NewStyle().Foreground(front).Background(back))
	}
	return &styles{
		bold:     of(r.NewStyle().Bold(true)),
		dim:      fg(hueGrey),
		faint:    fg(hueLine),
		accent:   fg(hueAccent),
		good:     fg(hueGood),
		warn:     fg(hueWarn),
		bad:      fg(hueBad),
		block:    fg(hueBlock),
		selected: bar(hueSelTxt, hueSelect),
		tab:      of(r.NewStyle().Bold(true).Foreground(hueOn).Background(hueAccent)),
		badge:    of(r.NewStyle().Bold(true).Foreground(hueOn).Background(hueWarn)),
		alert:    of(r.NewStyle().Bold(true).Foreground(hueBad)),
	}
}
