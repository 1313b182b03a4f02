package ui

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc/server/display"
)

// Bounds on texts from outside, in characters and in bytes.
const (
	maxCell = 256
	maxLong = 64 << 10
)

// functions are what templates call. Every text that somebody else chose (a name, a reason, an id of a trace) goes
// through text or long.
var functions = template.FuncMap{
	"text": text, "long": long, "path": path, "query": query,
	"count": display.Count, "short": func(n int64) string { return display.Short(float64(n)) }, "millis": display.Millis, "usd": display.USD,
	"price": display.Price, "percent": display.Percent, "plural": display.Plural, "dash": display.OrDash,
	"time": when, "ago": ago, "word": word, "plain": func(s string) string { return visible(s, false) },
}

// text returns a text from outside for one line: at most 256 characters, isolated from the direction of what stands
// around it, with escapes in place of characters that cannot be seen.
func text(s string) template.HTML {
	cut := ""
	if utf8.RuneCountInString(s) > maxCell {
		n := 0
		for i := range s {
			if n++; n > maxCell {
				s, cut = s[:i], "…"
				break
			}
		}
	}
	return template.HTML(`<bdi dir="auto">` + template.HTMLEscapeString(visible(s, false)+cut) + `</bdi>`)
}

// word returns a value in words, of which a part may be from outside, with the class of its level.
func word(w display.Word) template.HTML {
	if w.Level == display.Plain {
		return text(w.Text)
	}
	return `<span class="` + template.HTML(w.Level) + `">` + text(w.Text) + `</span>`
}

// long returns a text from outside of many lines: at most 64 KiB of it.
func long(s string) template.HTML {
	cut := ""
	if len(s) > maxLong {
		s, cut = strings.ToValidUTF8(s[:maxLong], ""), fmt.Sprintf("… (%s bytes more)", display.Count(int64(len(s)-maxLong)))
	}
	return template.HTML(`<pre dir="auto">` + template.HTMLEscapeString(visible(s, true)+cut) + `</pre>`)
}

// mostMarks is how many combining marks may follow one character: languages need up to four, and more reach into the
// lines above and below.
const mostMarks = 4

// visible replaces characters that cannot be seen, or change the order of others, or reach into other lines, by escapes.
func visible(s string, lines bool) string {
	var b strings.Builder
	marks, blank := 0, strings.Trim(s, " ") == ""
	for _, r := range s {
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		}
		switch {
		case lines && (r == '\n' || r == '\t'), r == ' ' && !blank:
			b.WriteRune(r)
		case r == utf8.RuneError, !unicode.IsPrint(r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r),
			blank, r == '\u2800', marks > mostMarks: // U+2800 is braille without dots
			fmt.Fprintf(&b, `\u{%X}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// path returns the path of a page: its parts are escaped.
func path(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// query returns a query string of names and values; empty values are left out.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + q.Encode()
}

// when returns a time in UTC, as the commands show it, for people and for programs.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "-"
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339Nano) + `">` + t.Format("2006-01-02 15:04:05Z") + `</time>`)
}

// ago returns how long ago a time is.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return display.Span(now.Sub(t)) + " ago"
}

// number returns the number of a parameter of the query, or another one.
func (v *visit) number(name string, otherwise int) int {
	n, err := strconv.Atoi(v.URL.Query().Get(name))
	if err != nil {
		return otherwise
	}
	return n
}
