package server

import (
	"testing"
	"time"
)

// Every spelling of RFC 3339 is accepted in bodies and in query strings; other
// forms of ISO 8601 are not.
func TestTimestampsAreRFC3339(t *testing.T) {
	r := newRig(t)
	lastNanosecond := time.Date(2016, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-02t00:00:00z":        time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		"2026-01-02T02:00:00.5+02:00": time.Date(2026, 1, 2, 0, 0, 0, 500_000_000, time.UTC),
		"2016-12-31T23:59:60Z":        lastNanosecond,
		"2016-12-31T23:59:60.25Z":     lastNanosecond,
		"2017-01-01t05:29:60+05:30":   lastNanosecond,
		"20260102T000000Z":            {},
		"2026-01-02T00:00":            {},
		"2026-01-02T12:30:60Z":        {},
		"2026-01-02T00:00:61Z":        {},
		"2026-01-02T00:00:00,5Z":      {},
		"2026-13-02T00:00:00Z":        {},
		"2026-01-02T00:00:00":         {},
		"0000-00-00T00:00:60Z":        {},
		"T60":                         {},
		"2026-01-02T23:59:60":         {},
		"2026-01-02T23:59:6":          {},
		"2026-01-02T24:00:00Z":        {},
		"2026-01-02 00:00:00Z":        {},
		"2026-01-02T00:00:00+99:00":   {},
		"2026-01-02T00:00:00Z ":       {},
	} {
		got, ok := parseTimestamp(text)
		if ok == want.IsZero() || ok && !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
		a := r.ask(r.admin, "POST", "/api/traces", `{"agentName":"a","status":"success","createdAt":"`+text+`"}`)
		if want.IsZero() {
			a.wantDetail("createdAt")
			continue
		}
		a.want(201)
		if detail := newQuery("startDate=" + text); detail.timestamp("startDate", false) == nil && text[19] != '.' {
			t.Errorf("%q is refused in a query string", text)
		}
	}
}

// Every spelling of a number without a fractional part is an integer.
func TestIntegersInEverySpelling(t *testing.T) {
	r := newRig(t)
	for text, want := range map[string]any{"1.0": 1.0, "1e3": 1000.0, "25e-1": nil, "1000000000.0": 1e9, "0.0": 0.0, "-0.0": 0.0,
		"1E+2": 100.0, "1.5": nil, "1e300": nil, "-1.0": nil, "1e10": nil, `"1"`: nil, "9007199254740993.0": nil} {
		a := r.ask(r.admin, "POST", "/api/traces", `{"agentName":"a","status":"success","inputTokens":`+text+`}`)
		if want == nil {
			a.wantDetail("inputTokens")
			continue
		}
		a.want(201)
		if got := r.ask(r.admin, "GET", "/api/traces?limit=1", "").want(200).list()[0]["inputTokens"]; got != want {
			t.Errorf("%s is %v", text, got)
		}
		r.clock.advance(time.Second)
	}
}
