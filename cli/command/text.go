package command

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// USD formats an amount of money.
func USD(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// Number formats a number with at most two decimals.
func Number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}

func Count(n int64) string { return strconv.FormatInt(n, 10) }

// Stamp formats a time to the second, in UTC; the zero time is "-".
func Stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Dash returns "-" for an empty cell.
func Dash(s string) string { return cmp.Or(s, "-") }
