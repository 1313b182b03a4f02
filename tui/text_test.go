package tui

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"svc/server/display"
)

func TestClean(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"usual", "search_orders", "search_orders"},
		{"clear the screen", "a\x1b[2Jb", "a\uFFFD[2Jb"},
		{"eight-bit control", "a\u009b31mb", "a\uFFFD31mb"},
		{"set the title", "\x1b]0;owned\x07", "\uFFFD]0;owned\uFFFD"},
		{"lines", "one\r\ntwo\tthree", "one  two three"},
		{"right to left override", "abc\u202Egpj.exe", "abc\uFFFDgpj.exe"},
		{"isolate", "\u2067x\u2069", "\uFFFDx\uFFFD"},
		{"zero width", "ad\u200Bmin", "ad\uFFFDmin"},
		{"joiner", "👩\u200D💻", "👩\uFFFD💻"},
		{"emoji style", "❤\uFE0F", "❤"},
		{"hidden selector", "admin\uFE0F", "admin\uFFFD"},
		{"soft hyphen", "ad\u00ADmin", "ad\uFFFDmin"},
		{"flag", "🇩🇪", "DE"},
		{"hebrew stays", "שלום", "שלום"},
		{"wide stays", "注文検索", "注文検索"},
		{"accent stays", "e\u0301", "e\u0301"},
		{"piled marks", "z" + strings.Repeat("\u0301", 50), "z\u0301\u0301"},
		{"mark at the start", "\u0301x", "x"},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
		{"private use", "\uE000", "\uFFFD"},
		{"tag characters", "a\U000E0041", "a\uFFFD"},
		{"hangul filler", "a\u3164b", "a\uFFFDb"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := clean(row.in); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// FuzzClean: the result has no characters that move the cursor or are
// invisible, a cell has exactly the requested width, and no terminal draws it
// wider.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\x1b[2J", "注文\u200D検索", "🇩🇪e\u0301", "\xff\xfe", strings.Repeat("\u0301", 9), "한글ᄀ", "👍🏽", "ﷺ"} {
		f.Add(s, 7)
	}
	f.Fuzz(func(t *testing.T, s string, w int) {
		c := clean(s)
		if !utf8.ValidString(c) || len(c) > 3*maxText {
			t.Fatalf("%q", c)
		}
		for _, r := range c {
			if r < ' ' || unicode.Is(unicode.C, r) {
				t.Fatalf("%U came through in %q", r, c)
			}
		}
		if ansi.Strip(c) != c {
			t.Fatalf("an escape sequence is left in %q", c)
		}
		if n := ansi.StringWidth(c); n > width(c) {
			t.Fatalf("%q: %d cells, measured as %d", c, n, width(c))
		}
		w = max(0, min(w, 300))
		if got := width(fit(c, w, w%2 == 0)); got != w {
			t.Fatalf("fit(%q, %d) takes %d cells", c, w, got)
		}
		for _, line := range wrap(c, max(1, w)) {
			if width(line) > max(1, w) {
				t.Fatalf("wrap(%q, %d) has %q", c, w, line)
			}
		}
	})
}

func TestFigures(t *testing.T) {
	for _, row := range []struct{ got, want string }{
		{display.Count(0), "0"}, {display.Count(999), "999"}, {display.Count(1000), "1,000"}, {display.Count(-1234567), "-1,234,567"},
		{display.Short(0), "0"}, {display.Short(1.234), "1.23"}, {display.Short(9999), "9999"}, {display.Short(12_345), "12.3k"}, {display.Short(4.2e9), "4.20G"},
		{display.Millis(0), "0 ms"}, {display.Millis(0.0004), "1 µs"}, {display.Millis(0.052), "52 µs"}, {display.Millis(0.25), "0.25 ms"}, {display.Millis(12.34), "12.3 ms"}, {display.Millis(432.1), "432 ms"}, {display.Millis(1082), "1.08 s"}, {display.Millis(61_000), "61.0 s"}, {display.Millis(7_200_000), "2 h 0 min"},
		{display.USD(0), "$0"}, {display.USD(0.00001), "<$0.0001"}, {display.USD(0.0123), "$0.0123"}, {display.USD(12.3), "$12.30"}, {display.USD(12_345.6), "$12,346"},
		{display.Price(0.5), "$0.50"}, {display.Price(250), "$250.00"}, {display.Price(0.125), "$0.1250"},
		{display.Percent(0), "0 %"}, {display.Percent(0.01), "<0.1 %"}, {display.Percent(12.34), "12.3 %"}, {display.Percent(100), "100 %"},
		{display.Span(-time.Second), "0 s"}, {display.Span(59 * time.Second), "59 s"}, {display.Span(61 * time.Second), "1 min 1 s"}, {display.Span(25 * time.Hour), "1 d 1 h"},
		{bar(0, 4), "    "}, {bar(0.5, 4), "██  "}, {bar(1, 4), "████"}, {bar(7, 4), "████"}, {bar(0.0001, 4), "▏   "}, {bar(math.NaN(), 4), "    "},
		{spark([]float64{0, 1, 2, math.NaN(), 8}), "▁▁▂ █"}, {spark(nil), ""}, {track(0.5, 4), "██··"},
		{stretch(0, 50, 100, 4), "██  "}, {stretch(50, 50, 100, 4), "  ██"}, {stretch(99, 1, 100, 4), "   ▏"}, {stretch(0, 0, 0, 4), "    "},
	} {
		if row.got != row.want {
			t.Errorf("got %q, want %q", row.got, row.want)
		}
	}
}
