// Package display turns values of the REST API into words and numbers for people: what svc tui and the page of
// the control plane show in the same way.
package display

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Count formats a number with thousands separators.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Short formats a number in at most six cells.
func Short(n float64) string {
	switch a := math.Abs(n); {
	case a >= 1e9:
		return Trim(n/1e9) + "G"
	case a >= 1e6:
		return Trim(n/1e6) + "M"
	case a >= 1e4:
		return Trim(n/1e3) + "k"
	}
	return Trim(n)
}

// Trim formats a number with at most two digits after the point.
func Trim(n float64) string {
	if a := math.Abs(n); a >= 100 || a == math.Trunc(a) {
		return strconv.FormatFloat(n, 'f', 0, 64)
	} else if a >= 10 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// Millis formats a duration in milliseconds.
func Millis(ms float64) string {
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
	return Span(time.Duration(ms) * time.Millisecond)
}

// USD formats money.
func USD(v float64) string {
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
	return "$" + Count(int64(math.Round(v)))
}

// Price formats an amount that a person chose, without trailing zeros.
func Price(v float64) string {
	if v < 1000 && math.Abs(v*100-math.Round(v*100)) < 1e-9 {
		return "$" + strconv.FormatFloat(v, 'f', 2, 64)
	}
	return USD(v)
}

// Percent formats a share in percent.
func Percent(v float64) string {
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

// Span formats a duration with its two largest units.
func Span(d time.Duration) string {
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

// OrDash returns "-" for an empty text.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Plural returns a number with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(int64(n)) + " " + many
}
