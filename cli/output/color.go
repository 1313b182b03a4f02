package output

import (
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// painter colors the cells of a column whose values say how something is. The
// renderer asks no terminal: whether there are colors is decided by [process.Env.Colour].
var painter = func() *lipgloss.Renderer {
	r := lipgloss.NewRenderer(nil)
	r.SetColorProfile(termenv.ANSI)
	return r
}()

// colored are the columns whose cells are colored by their value.
var colored = []string{"STATUS", "CHANGE", "CONTRADICTED"}

// The sixteen colors of every terminal, which its user has chosen to be readable.
var (
	good = painter.NewStyle().Foreground(lipgloss.Color("2"))
	warn = painter.NewStyle().Foreground(lipgloss.Color("3"))
	bad  = painter.NewStyle().Foreground(lipgloss.Color("1"))
)

// tones are the values that are colored.
var tones = map[string]lipgloss.Style{
	"success": good, "ok": good, "healthy": good, "active": good, "logged in": good, "met": good, "create": good, "created": good,
	"blocked": warn, "at risk": warn, "at_risk": warn, "warning": warn, "unknown": warn, "update": warn, "updated": warn, "withheld": warn, "changed": warn,
	"failed": bad, "error": bad, "breached": bad, "violated": bad, "critical": bad, "exceeded": bad, "delete": bad, "deleted": bad, "suspended": bad, "yes": bad,
}

// paint colors a cell of a column by its value, and adds nothing where the value is not
// one that has a color.
func paint(column, cell string) string {
	if !slices.Contains(colored, column) {
		return cell
	}
	if tone, ok := tones[strings.ToLower(cell)]; ok {
		return tone.Render(cell)
	}
	return cell
}
