package audit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

var errNotRecord = errors.New("is not a line of an audit file")

// Decode reads a line, with or without its line feed, into r and overwrites
// all of it. Members that it does not know are skipped, so that lines of later
// versions can be read. It accepts what the encoder writes; anything else gives
// an error or, where it is harmless, less than the line says.
func Decode(line []byte, r *Record) error {
	*r = Record{}
	// One copy: the record's strings are parts of it.
	d := decoder{in: string(line)}
	var cp Checkpoint
	err := d.object(func(name string) error { return d.member(name, r, &cp) })
	if err != nil {
		return err
	}
	if d.space(); d.at < len(d.in) {
		return errNotRecord
	}
	if r.Seq == 0 || r.Kind == "" {
		return errNotRecord
	}
	if r.Kind == KindCheckpoint {
		r.Checkpoint = &cp
	}
	return nil
}

// member reads the value of one member.
func (d *decoder) member(name string, r *Record, cp *Checkpoint) error {
	if s := stringField(name, r, cp); s != nil {
		v, err := d.str()
		*s = v
		return err
	}
	switch name {
	case "seq":
		return d.unsigned(&r.Seq)
	case "ts":
		s, err := d.str()
		if err != nil {
			return err
		}
		if r.Time, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return fmt.Errorf("ts: %w", errNotRecord)
		}
		return nil
	case "kind":
		s, err := d.str()
		r.Kind = Kind(s)
		return err
	case "event":
		s, err := d.str()
		cp.Event = Event(s)
		return err
	case "is_error":
		b, err := d.boolean()
		r.IsError = b
		return err
	case "status":
		return d.integer(func(n int64) { r.Status = int(n) })
	case "duration_ms":
		return d.millis(&r.Duration)
	case "bytes_in":
		return d.integer(func(n int64) { r.BytesIn = n })
	case "bytes_out":
		return d.integer(func(n int64) { r.BytesOut = n })
	case "frames":
		return d.integer(func(n int64) { r.Frames = n })
	case "stripped":
		return d.integer(func(n int64) { r.Stripped = int(n) })
	case "lost":
		return d.unsigned(&cp.Lost)
	case "torn_bytes":
		return d.integer(func(n int64) { cp.Torn = n })
	case "guardrail_latency_ms":
		return d.millis(&r.GuardrailLatency)
	case "injection_score":
		return d.float(&r.InjectionScore)
	case "pii_detected":
		return d.array(func() error {
			s, err := d.str()
			r.PIIDetected = append(r.PIIDetected, s)
			return err
		})
	case "spans":
		return d.array(func() error { return d.span(r) })
	case "policies_fired":
		return d.array(func() error { return d.policy(r) })
	case "observed":
		return d.array(func() error { return d.observed(r) })
	case "quality_scores":
		return d.array(func() error { return d.quality(r) })
	}
	return d.skip(0)
}

func stringField(name string, r *Record, cp *Checkpoint) *string {
	switch name {
	case "request_id":
		return &r.RequestID
	case "trace_id":
		return &r.TraceID
	case "action":
		return &r.Action
	case "rule_id":
		return &r.RuleID
	case "error_kind":
		return &r.ErrorKind
	case "rpc":
		return &r.RPC
	case "method":
		return &r.Method
	case "tool":
		return &r.Tool
	case "direction":
		return &r.Direction
	case "result_type":
		return &r.ResultType
	case "upstream":
		return &r.Upstream
	case "principal":
		return &r.Principal
	case "principal_kind":
		return &r.PrincipalKind
	case "key_id":
		return &r.KeyID
	case "oauth_client_name":
		return &r.OAuthClientName
	case "client_ip":
		return &r.ClientIP
	case "agent":
		return &r.Agent
	case "environment":
		return &r.Environment
	case "session":
		return &r.Session
	case "dialect":
		return &r.Dialect
	case "guardrail_name":
		return &r.GuardrailName
	case "guardrail_verdict":
		return &r.GuardrailVerdict
	case "task_handle":
		return &r.TaskHandle
	case "subscription_id":
		return &r.SubscriptionID
	case "prev":
		return &cp.Prev
	case "key":
		return &cp.KeyID
	case "sig":
		return &cp.Sig
	}
	return nil
}

func (d *decoder) span(r *Record) error {
	var s Span
	err := d.object(func(name string) (err error) {
		switch name {
		case "stage":
			s.Stage, err = d.str()
		case "duration_ms":
			err = d.millis(&s.Duration)
		default:
			err = d.skip(0)
		}
		return err
	})
	if r.Spans == nil {
		r.Spans = make([]Span, 0, 2) // what an ordinary request has
	}
	r.Spans = append(r.Spans, s)
	return err
}

func (d *decoder) policy(r *Record) error {
	var p PolicyFired
	err := d.object(func(name string) (err error) {
		switch name {
		case "id":
			p.ID, err = d.str()
		case "name":
			p.Name, err = d.str()
		case "action":
			p.Action, err = d.str()
		default:
			err = d.skip(0)
		}
		return err
	})
	r.PoliciesFired = append(r.PoliciesFired, p)
	return err
}

func (d *decoder) observed(r *Record) error {
	var o Observed
	err := d.object(func(name string) (err error) {
		switch name {
		case "rule_id":
			o.RuleID, err = d.str()
		case "action":
			o.Action, err = d.str()
		default:
			err = d.skip(0)
		}
		return err
	})
	r.Observed = append(r.Observed, o)
	return err
}

func (d *decoder) quality(r *Record) error {
	var q QualityScore
	err := d.object(func(name string) (err error) {
		switch name {
		case "scorer":
			q.Scorer, err = d.str()
		case "score":
			err = d.float(&q.Score)
		default:
			err = d.skip(0)
		}
		return err
	})
	r.QualityScores = append(r.QualityScores, q)
	return err
}

// decoder reads JSON from one line. Every read moves forward, and nesting is
// bounded, so that no input keeps it busy.
type decoder struct {
	in string
	at int
}

const maxDepth = 16

func (d *decoder) space() {
	for d.at < len(d.in) && (d.in[d.at] == ' ' || d.in[d.at] == '\n' || d.in[d.at] == '\r' || d.in[d.at] == '\t') {
		d.at++
	}
}

// take consumes c, after white space; the log writes none.
func (d *decoder) take(c byte) bool {
	if d.at < len(d.in) && d.in[d.at] > ' ' {
		if d.in[d.at] != c {
			return false
		}
		d.at++
		return true
	}
	if d.space(); d.at < len(d.in) && d.in[d.at] == c {
		d.at++
		return true
	}
	return false
}

func (d *decoder) object(member func(name string) error) error {
	if !d.take('{') {
		return errNotRecord
	}
	if d.take('}') {
		return nil
	}
	for {
		name, err := d.str()
		if err != nil {
			return err
		}
		if !d.take(':') {
			return errNotRecord
		}
		if err := member(name); err != nil {
			return err
		}
		switch {
		case d.take(','):
		case d.take('}'):
			return nil
		default:
			return errNotRecord
		}
	}
}

func (d *decoder) array(element func() error) error {
	if !d.take('[') {
		return errNotRecord
	}
	if d.take(']') {
		return nil
	}
	for n := 0; ; n++ {
		if n >= maxList {
			return errNotRecord
		}
		if err := element(); err != nil {
			return err
		}
		switch {
		case d.take(','):
		case d.take(']'):
			return nil
		default:
			return errNotRecord
		}
	}
}

// str reads a string.
func (d *decoder) str() (string, error) {
	if !d.take('"') {
		return "", errNotRecord
	}
	rest := d.in[d.at:]
	for i := range len(rest) {
		if c := rest[i]; c != '"' && c != '\\' && c >= ' ' {
			continue
		}
		start := d.at
		d.at += i
		switch rest[i] {
		case '"':
			d.at++
			return rest[:i], nil
		case '\\':
			return d.escaped(start)
		}
		return "", errNotRecord
	}
	return "", errNotRecord
}

// escaped reads the rest of a string that has escapes.
func (d *decoder) escaped(start int) (string, error) {
	b := []byte(d.in[start:d.at])
	for d.at < len(d.in) {
		c := d.in[d.at]
		d.at++
		switch {
		case c == '"':
			return string(b), nil
		case c < ' ':
			return "", errNotRecord
		case c != '\\':
			b = append(b, c)
			continue
		}
		r, ok := d.escape()
		if !ok {
			return "", errNotRecord
		}
		b = utf8.AppendRune(b, r)
	}
	return "", errNotRecord
}

// escape reads what follows a backslash.
func (d *decoder) escape() (rune, bool) {
	if d.at >= len(d.in) {
		return 0, false
	}
	c := d.in[d.at]
	d.at++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
	default:
		return 0, false
	}
	r, ok := d.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if !strings.HasPrefix(d.in[d.at:], `\u`) {
		return 0, false
	}
	d.at += 2
	low, ok := d.hex4()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

func (d *decoder) hex4() (rune, bool) {
	if d.at+4 > len(d.in) {
		return 0, false
	}
	n, err := strconv.ParseUint(d.in[d.at:d.at+4], 16, 16)
	d.at += 4
	return rune(n), err == nil
}

// digits returns the text of a number.
func (d *decoder) digits() string {
	d.space()
	start := d.at
	for d.at < len(d.in) {
		c := d.in[d.at]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		d.at++
	}
	return d.in[start:d.at]
}

func (d *decoder) unsigned(n *uint64) (err error) {
	if *n, err = strconv.ParseUint(d.digits(), 10, 64); err != nil {
		return errNotRecord
	}
	return nil
}

func (d *decoder) integer(set func(int64)) error {
	n, err := strconv.ParseInt(d.digits(), 10, 64)
	if err != nil {
		return errNotRecord
	}
	set(n)
	return nil
}

func (d *decoder) float(f *float64) (err error) {
	if *f, err = strconv.ParseFloat(d.digits(), 64); err != nil {
		return errNotRecord
	}
	return nil
}

// millis reads milliseconds: as the log writes them, with three decimals, else
// as any number.
func (d *decoder) millis(v *time.Duration) error {
	text := d.digits()
	if us, ok := micros(text); ok {
		*v = us
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errNotRecord
	}
	if f < 0 || f > float64(maxDuration/time.Millisecond) {
		return errNotRecord
	}
	*v = time.Duration(f*1000+0.5) * time.Microsecond
	return nil
}

// micros reads up to nine digits, a point and three more.
func micros(text string) (time.Duration, bool) {
	point := len(text) - 4
	if point < 1 || point > 9 || text[point] != '.' {
		return 0, false
	}
	var us int64
	for i := range len(text) {
		c := text[i] - '0'
		if i == point {
			continue
		}
		if c > 9 {
			return 0, false
		}
		us = 10*us + int64(c)
	}
	return time.Duration(us) * time.Microsecond, true
}

func (d *decoder) boolean() (bool, error) {
	d.space()
	for _, w := range []string{"true", "false"} {
		if end := d.at + len(w); end <= len(d.in) && d.in[d.at:end] == w {
			d.at = end
			return w == "true", nil
		}
	}
	return false, errNotRecord
}

// skip passes over any value.
func (d *decoder) skip(depth int) error {
	if depth > maxDepth {
		return errNotRecord
	}
	d.space()
	if d.at >= len(d.in) {
		return errNotRecord
	}
	switch d.in[d.at] {
	case '{':
		return d.object(func(string) error { return d.skip(depth + 1) })
	case '[':
		return d.array(func() error { return d.skip(depth + 1) })
	case '"':
		_, err := d.str()
		return err
	case 't', 'f':
		_, err := d.boolean()
		return err
	case 'n':
		if end := d.at + len("null"); end <= len(d.in) && d.in[d.at:end] == "null" {
			d.at = end
			return nil
		}
		return errNotRecord
	}
	var f float64
	return d.float(&f)
}
