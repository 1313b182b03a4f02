package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc/server/display"
	"svc/store/api"
)

// Bounds on texts from outside, in characters and in bytes.
const (
	maxCell = 256
	maxLong = 64 << 10
)

// functions are what templates call. Every text that somebody else chose (a name, a reason, an id of a trace) goes
// through text, texts, linked or long.
var functions = template.FuncMap{
	"text": text, "texts": texts, "linked": linked, "long": long, "plain": func(s string) string { return visible(s, false) },
	"path": path, "query": query, "version": func() string { return version },
	"scroll": scroll, "heads": heads, "counted": counted, "share": share,
	"count": display.Count, "int": func(n int) string { return display.Count(int64(n)) }, "short": func(n int64) string { return display.Short(float64(n)) },
	"millis": display.Millis, "usd": display.USD, "price": display.Price, "percent": display.Percent, "plural": display.Plural, "dash": display.OrDash,
	"time": when, "ago": ago, "span": func(from, to time.Time) string { return display.Span(to.Sub(from)) }, "word": word,
	"when": func(is bool, s string) string {
		if !is {
			return ""
		}
		return s
	},
	"argumentNotes": display.ArgumentNotes, "argumentsSize": display.ArgumentsSize, "selfCheck": display.SelfCheck,
	"approvalState": display.ApprovalState, "approvalAge": display.ApprovalAge, "reasons": display.Reasons,
	"decision": decision, "enforcers": enforcers, "action": display.Action, "condition": display.Condition, "onAgent": display.OnAgent,
	"gatewayState": display.GatewayState, "gatewayPolicies": display.GatewayPolicies, "gatewayAudit": display.GatewayAudit, "gatewayLicense": display.GatewayLicense,
	"gatewayUpstreams": display.GatewayUpstreams, "upstreamState": display.UpstreamState, "failingFirst": display.FailingFirst,
	"budgetState": display.BudgetState, "slaState": display.SLAState, "missed": display.Missed, "errorRate": display.ErrorRate,
	"p99": func(t api.SLATarget) display.Word {
		return display.Against(t.Status, t.CurrentP99Ms, t.P99LatencyMs, display.Millis)
	},
	"errors": func(t api.SLATarget) display.Word {
		return display.Against(t.Status, t.CurrentErrorRate, t.ErrorRatePercent, display.Percent)
	},
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

// texts returns texts from outside for one line; a list without any is "-".
func texts(list []string) template.HTML {
	shown := make([]string, len(list))
	for i, s := range list {
		shown[i] = string(text(s))
	}
	return template.HTML(cmp.Or(strings.Join(shown, ", "), "-"))
}

// linked returns a text from outside as a link to one of our pages; without an address it is the text alone.
func linked(to, s string) template.HTML {
	if to == "" {
		return text(s)
	}
	return `<a href="` + template.HTML(template.HTMLEscapeString(to)) + `">` + text(s) + `</a>`
}

// May reports whether the key of the session may call an endpoint of the API.
func (f frame) May(method, path string) bool { return f.visit.may(method, path) }

// Asked returns a parameter of the query.
func (f frame) Asked(name string) string { return f.visit.asked(name) }

// Agent returns the name of an agent, with a link to its page when the key of the session may see it.
func (f frame) Agent(id, name string) template.HTML {
	if id == "" || !f.May("GET", "/api/agents/{id}") {
		return text(name)
	}
	return linked(path("agents", id), name)
}

// Traces returns a text with a link to the traces with a filter, when the key of the session may see them.
func (f frame) Traces(s string, filter ...string) template.HTML {
	if !f.May("GET", "/api/traces") {
		return text(s)
	}
	return linked("/traces"+query(filter...), s)
}

// scroll begins a table, of a class if it has one, that scrolls on screens that are too narrow for it.
func scroll(label, class string) template.HTML {
	if class != "" {
		class = ` class="` + class + `"`
	}
	return template.HTML(`<div class="scroll" tabindex="0" role="region" aria-label="` + template.HTMLEscapeString(label) + `"><table` + class + `>`)
}

// heads returns the head of a table; # begins the name of a column of numbers, and empty names are left out.
func heads(names ...string) template.HTML {
	var b strings.Builder
	for _, name := range names {
		if name, number := strings.CutPrefix(name, "#"); number {
			b.WriteString(`<th scope="col" class="num">` + template.HTMLEscapeString(name) + `</th>`)
		} else if name != "" {
			b.WriteString(`<th scope="col">` + template.HTMLEscapeString(name) + `</th>`)
		}
	}
	return template.HTML("<thead><tr>" + b.String() + "</tr></thead>\n<tbody>")
}

// counted returns a cell with a number that is bad, or blocked, unless it is 0.
func counted(n int64, class string) template.HTML {
	if class = "num " + class; n == 0 {
		class = "num"
	}
	return template.HTML(`<td class="` + class + `">` + display.Count(n) + `</td>`)
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
