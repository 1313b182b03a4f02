package tui

import (
	"fmt"
	"strings"

	"svc/server/display"
)

// waterfall draws the spans one after the other.
func (t *tracePage) waterfall(w int) []string {
	p, tr := t.s.styles, t.trace()
	if len(tr.Spans) == 0 {
		text := "No spans were recorded."
		if t.s.plane != nil && !t.full.have {
			text = "Spans: asking…"
			if t.full.err != nil {
				text = "Spans: " + userMessage(t.full.err)
			}
		}
		return []string{p.dim.paint(cut(" "+text, w))}
	}
	stages, total := display.Waterfall(&tr)
	names := 8
	for _, s := range tr.Spans {
		names = max(names, min(28, width(clean(s.Stage))))
	}
	const figures = 9 + 1 + 7
	room := w - 1 - names - 2 - 1 - figures - 1
	lines := []string{p.bold.paint(cut(fmt.Sprintf(" Spans  %s in %s", display.Plural(len(tr.Spans), "stage", "stages"), display.Millis(total)), w))}
	draw := func(name string, from, ms float64, style style) {
		var l line
		l.add(p.plain, " "+fit(name, names, false)+" ")
		if room >= 4 {
			l.add(p.faint, "│")
			l.add(style, stretch(from, ms, total, room))
			l.add(p.faint, "│")
		}
		l.add(p.plain, fit(display.Millis(ms), 10, true))
		l.add(p.dim, fit(display.Percent(display.Share(ms, total)), 8, true))
		lines = append(lines, l.fit(w))
	}
	for _, g := range stages {
		style := p.accent
		switch {
		case g.Rest:
			style = p.faint
		case g.Long:
			style = p.warn
		}
		draw(clean(g.Name), g.From, g.Ms, style)
	}
	return lines
}

// stretch draws a part of a whole as a bar at the part's position; the
// shortest part is still visible.
func stretch(from, length, total float64, w int) string {
	if total <= 0 {
		return blanks(w)
	}
	start := min(w-1, int(from/total*float64(w)))
	n := int(length/total*float64(w) + 0.5)
	if n < 1 {
		return fit(blanks(start)+"▏", w, false)
	}
	return fit(blanks(start)+strings.Repeat("█", min(n, w-start)), w, false)
}
