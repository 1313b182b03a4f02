package tui

import (
	"math"
	"strings"

	"svc/server/display"
)

// bar draws a share between 0 and 1 in w cells, in eighths of a cell.
func bar(share float64, w int) string {
	if w <= 0 {
		return ""
	}
	if !(share > 0) {
		return blanks(w)
	}
	eighths := int(math.Round(min(share, 1) * float64(w) * 8))
	if eighths == 0 {
		eighths = 1
	}
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return fit(s, w, false)
}

// spark draws values as a row of small bars, relative to the highest. NaN is a
// gap.
func spark(values []float64) string {
	top := display.Top(values...)
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case v <= 0 || top <= 0:
			b.WriteRune('▁')
		default:
			b.WriteRune([]rune("▁▂▃▄▅▆▇█")[min(7, int(v/top*7.999))])
		}
	}
	return b.String()
}
