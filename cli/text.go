package cli

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// usd shows an amount of money.
func usd(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// number shows a figure with at most two decimals.
func number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// stamp shows a time to the second, UTC; the zero time is "-".
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// dash shows an empty cell.
func dash(s string) string { return cmp.Or(s, "-") }
