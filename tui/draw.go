package tui

import "strings"

// line is built from colored parts and tracks its width.
type line struct {
	parts []part
}

type part struct {
	style style
	text  string
}

func (l *line) add(p style, text string) { l.parts = append(l.parts, part{p, text}) }

// fit truncates the line to w cells.
func (l *line) fit(w int) string {
	var b strings.Builder
	left := w
	for i, part := range l.parts {
		text := part.text
		if n := width(text); n > left || n == left && i < len(l.parts)-1 && l.more(i+1) {
			text = cut(text+" ", left) // one cell more, so that the truncation is visible
			b.WriteString(part.style.paint(text))
			return b.String()
		}
		left -= width(text)
		b.WriteString(part.style.paint(text))
	}
	return b.String()
}

// more reports whether anything but blanks follows.
func (l *line) more(from int) bool {
	for _, part := range l.parts[from:] {
		if strings.TrimSpace(part.text) != "" {
			return true
		}
	}
	return false
}

// centred draws a message in the middle of the page.
func centred(p *styles, w, h int, title, text string) []string {
	lines := []string{p.bold.paint(cut(title, w))}
	widths := []int{min(width(title), w)}
	for _, l := range wrap(text, min(w-4, 64)) {
		lines, widths = append(lines, p.dim.paint(l)), append(widths, width(l))
	}
	top := max(0, (h-len(lines))/2-1)
	out := make([]string, top, top+len(lines))
	for i, l := range lines {
		out = append(out, blanks((w-widths[i])/2)+l)
	}
	return out
}

// scroller shows a part of lines when not all fit.
type scroller struct{ top, height, n int }

func (s *scroller) show(lines []string, h int) []string {
	s.height, s.n = h, len(lines)
	s.top = max(0, min(s.top, len(lines)-h))
	return lines[s.top:min(len(lines), s.top+h)]
}

func (s *scroller) move(by int) { s.top = max(0, min(s.top+by, max(0, s.n-s.height))) }

func (s *scroller) key(k string) bool {
	page := max(1, s.height-1)
	switch k {
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "pgup", "ctrl+b":
		s.move(-page)
	case "pgdown", "ctrl+f", " ":
		s.move(page)
	case "ctrl+u":
		s.move(-page / 2)
	case "ctrl+d":
		s.move(page / 2)
	case "home", "g":
		s.top = 0
	case "end", "G":
		s.move(s.n)
	default:
		return false
	}
	return true
}

// copyText copies a text to the clipboard and shows a message.
func (s *shared) copyText(what, text string) {
	if s.copy == nil {
		s.notify(s.styles.warn, "there is no clipboard here")
		return
	}
	if err := s.copy(text); err != nil {
		s.notify(s.styles.bad, "could not copy: "+userMessage(err))
		return
	}
	s.notify(s.styles.good, what+" copied: "+cut(clean(text), 60))
}
