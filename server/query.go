package server

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"svc/store"
	"svc/store/api"
)

// maxInteger is the largest integer that JSON readers with binary64 numbers
// represent exactly.
const maxInteger = 1<<53 - 1

// maxQueryValue bounds one value of a query string, in bytes.
const maxQueryValue = 512

// query reads the parameters of one request and collects their errors; call err
// after all are read.
type query struct {
	values url.Values
	wrong  map[string]string
}

// newQuery parses a raw query string. A text that url.ParseQuery cannot parse (a
// stray semicolon, a bad escape) is an error, so that no parameter is silently
// dropped.
func newQuery(raw string) *query {
	values, err := url.ParseQuery(raw)
	q := &query{values: values}
	if err != nil {
		q.bad("query", "is not a valid query string")
	}
	return q
}

// checkQuery rejects parameters that the endpoint does not have: a misspelled
// filter would return other data than the client asked for. Routes for programs,
// which count in the ingest window, ignore unknown parameters, so that a gateway
// of a later release can report to this one.
func (c *call) checkQuery() error {
	if c.route.window != apiWindow || c.URL.RawQuery == "" {
		return nil
	}
	q := c.query()
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		switch {
		case slices.Contains(c.route.query, name):
		case c.route.unpaged && (name == "limit" || name == "offset"):
			q.page(api.DefaultLimit)
		case len(q.wrong) >= maxDetails:
			return q.err()
		default:
			q.bad(cut(strings.ToValidUTF8(name, "\uFFFD"), 64), "unknown parameter")
		}
	}
	return q.err()
}

func (q *query) bad(name, message string) {
	if q.wrong == nil {
		q.wrong = map[string]string{}
	}
	if _, ok := q.wrong[name]; !ok {
		q.wrong[name] = message
	}
}

// err is a 400 naming every bad parameter, or nil.
func (q *query) err() error {
	if q.wrong == nil {
		return nil
	}
	return invalid(q.wrong)
}

// get returns the value of a parameter and whether it was given.
func (q *query) get(name string) (string, bool) {
	vs, ok := q.values[name]
	if !ok {
		return "", false
	}
	switch {
	case len(vs) > 1:
		q.bad(name, "is given more than once")
	case len(vs[0]) > maxQueryValue:
		q.bad(name, "must have at most "+strconv.Itoa(maxQueryValue)+" bytes")
	case !utf8.ValidString(vs[0]) || strings.IndexByte(vs[0], 0) >= 0:
		q.bad(name, "must be valid text")
	default:
		return vs[0], true
	}
	return "", false
}

// text returns a filter that matches a string exactly. An empty value is no
// filter; forms send it for "all".
func (q *query) text(name string) string {
	v, _ := q.get(name)
	return v
}

// enum returns one of the allowed values, or fallback when not given.
func (q *query) enum(name, fallback string, allowed []string) string {
	v, ok := q.get(name)
	if !ok {
		return fallback
	}
	if !slices.Contains(allowed, v) {
		q.bad(name, "must be one of "+strings.Join(allowed, ", "))
		return fallback
	}
	return v
}

// boolean returns true or false; nil when not given.
func (q *query) boolean(name string) *bool {
	v, ok := q.get(name)
	if !ok {
		return nil
	}
	if v != "true" && v != "false" {
		q.bad(name, "must be true or false")
		return nil
	}
	b := v == "true"
	return &b
}

// number returns a finite number from low to high; nil when not given.
func (q *query) number(name string, low, high float64) *float64 {
	v, ok := q.get(name)
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || strings.ContainsAny(v, "_xXpP") {
		q.bad(name, "must be a number")
		return nil
	}
	if f < low || f > high {
		q.bad(name, "must be from "+strconv.FormatFloat(low, 'g', -1, 64)+" to "+strconv.FormatFloat(high, 'g', -1, 64))
		return nil
	}
	return &f
}

// timestamp returns the time of a parameter; nil when not given.
func (q *query) timestamp(name string, end bool) *time.Time {
	v, ok := q.get(name)
	if !ok {
		return nil
	}
	t, ok := Timestamp(v, end)
	if !ok {
		q.bad(name, "must be an ISO 8601 timestamp such as 2026-01-31T09:30:00Z")
		return nil
	}
	return &t
}

// Timestamp returns an ISO 8601 time in UTC. A time without a zone is UTC, like every timestamp of this API. A date
// alone means its first instant, or its last one for an inclusive end.
func Timestamp(v string, end bool) (t time.Time, ok bool) {
	if t, err := time.Parse(time.DateOnly, v); err == nil {
		if end {
			t = t.AddDate(0, 0, 1).Add(-time.Nanosecond)
		}
		return t, true
	}
	// A + that was not escaped is decoded as a space.
	v = strings.Replace(v, " ", "+", 1)
	if t, ok := parseTimestamp(v); ok {
		return t.UTC(), true
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, v); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// page returns limit and offset. A limit above the maximum is lowered to it.
func (q *query) page(limit int) store.Page {
	p := store.Page{Limit: limit}
	if n, ok := q.integer("limit", "must be an integer of at least 1"); ok {
		if n < 1 {
			q.bad("limit", "must be an integer of at least 1")
		}
		p.Limit = min(n, api.MaxLimit)
	}
	if n, ok := q.integer("offset", "must be an integer of at least 0"); ok {
		p.Offset = n
	}
	return p
}

// integer parses decimal digits. A number above maxInteger is lowered to it.
func (q *query) integer(name, message string) (int, bool) {
	v, ok := q.get(name)
	if !ok {
		return 0, false
	}
	if v == "" || strings.Trim(v, "0123456789") != "" {
		q.bad(name, message)
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n > maxInteger {
		n = maxInteger
	}
	return int(n), true
}
