package command

import (
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// painter colors the cells of a column that has states. It does not check the terminal:
// [process.Env.Colour] decides whether there are colors.
var painter = func() *lipgloss.Renderer {
	r := lipgloss.NewRenderer(nil)
	r.SetColorProfile(termenv.ANSI)
	return r
}()

// colored are the columns whose cells are colored by their values.
var colored = []string{"STATUS", "CHANGE", "CONTRADICTED"}

// The sixteen standard colors, which users configure in their terminals to be readable.
var (
	good = painter.NewStyle().Foreground(lipgloss.Color("2"))
	warn = painter.NewStyle().Foreground(lipgloss.Color("3"))
	bad  = painter.NewStyle().Foreground(lipgloss.Color("1"))
)

// tones maps values to colors.
var tones = map[string]lipgloss.Style{
	"success": good, "ok": good, "healthy": good, "active": good, "logged in": good, "met": good, "create": good, "created": good,
	"blocked": warn, "at risk": warn, "at_risk": warn, "warning": warn, "unknown": warn, "update": warn, "updated": warn, "withheld": warn, "changed": warn,
	"failed": bad, "error": bad, "breached": bad, "violated": bad, "critical": bad, "exceeded": bad, "delete": bad, "deleted": bad, "suspended": bad, "yes": bad,
}

// paint colors a cell of a column by its value; a value without a color is not changed.
func paint(column, cell string) string {
	if !slices.Contains(colored, column) {
		return cell
	}
	if tone, ok := tones[strings.ToLower(cell)]; ok {
		return tone.Render(cell)
	}
	return cell
}
