package tui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// count formats a number with thousands separators.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short formats a number in at most six cells.
func short(n float64) string {
	switch a := math.Abs(n); {
	case a >= 1e9:
		return trim(n/1e9) + "G"
	case a >= 1e6:
		return trim(n/1e6) + "M"
	case a >= 1e4:
		return trim(n/1e3) + "k"
	}
	return trim(n)
}

func trim(n float64) string {
	if a := math.Abs(n); a >= 100 || a == math.Trunc(a) {
		return strconv.FormatFloat(n, 'f', 0, 64)
	} else if a >= 10 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// millis formats a duration in milliseconds.
func millis(ms float64) string {
	switch {
	case ms == 0:
		return "0 ms"
	case ms < 0.1:
		return strconv.FormatFloat(max(ms*1000, 1), 'f', 0, 64) + " µs"
	case ms < 1:
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	case ms < 1000:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case ms < 10_000:
		return strconv.FormatFloat(ms/1000, 'f', 2, 64) + " s"
	case ms < 600_000:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	}
	return span(time.Duration(ms) * time.Millisecond)
}

// usd formats money.
func usd(v float64) string {
	switch {
	case v == 0:
		return "$0"
	case v > 0 && v < 0.0001:
		return "<$0.0001"
	case math.Abs(v) < 1:
		return "$" + strconv.FormatFloat(v, 'f', 4, 64)
	case math.Abs(v) < 1000:
		return "$" + strconv.FormatFloat(v, 'f', 2, 64)
	}
	return "$" + count(int64(math.Round(v)))
}

// price formats an amount that a person chose, without trailing zeros.
func price(v float64) string {
	if v < 1000 && math.Abs(v*100-math.Round(v*100)) < 1e-9 {
		return "$" + strconv.FormatFloat(v, 'f', 2, 64)
	}
	return usd(v)
}

// percent formats a share in percent.
func percent(v float64) string {
	switch {
	case v == 0:
		return "0 %"
	case v < 0.1:
		return "<0.1 %"
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " %"
}

// span formats a duration with its two largest units.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

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
	top := 0.0
	for _, v := range values {
		if v > top {
			top = v
		}
	}
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

// orDash returns "-" for an empty text.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(int64(n)) + " " + many
}
