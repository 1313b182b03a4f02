package server

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decodeOptions accept every spelling of integers and of RFC 3339 timestamps:
// 1.0 and 1e3 are integers in JSON Schema, and T and Z may be lower case.
var decodeOptions = json.JoinOptions(
	json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(readInteger[int]),
		json.UnmarshalFromFunc(readInteger[int64]),
		json.UnmarshalFromFunc(readTimestamp),
	)),
)

var errNotInteger = errors.New("must be an integer")

// readInteger decodes a number without a fractional part in any spelling.
func readInteger[T int | int64](d *jsontext.Decoder, to *T) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		*to = T(n)
		return nil
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxInteger {
		return errNotInteger
	}
	*to = T(f)
	return nil
}

var errNotTimestamp = errors.New("must be an RFC 3339 timestamp")

// readTimestamp decodes an RFC 3339 timestamp.
func readTimestamp(d *jsontext.Decoder, to *time.Time) error {
	if d.PeekKind() != '"' {
		return errors.ErrUnsupported
	}
	tok, err := d.ReadToken()
	if err != nil {
		return err
	}
	t, ok := parseTimestamp(tok.String())
	if !ok {
		return errNotTimestamp
	}
	*to = t
	return nil
}

// parseTimestamp parses RFC 3339 in full, with T and Z in either case. A leap
// second becomes the last nanosecond of its minute, because time.Time has no
// leap seconds.
func parseTimestamp(s string) (time.Time, bool) {
	s = strings.ToUpper(s)
	const second = len("2006-01-02T15:04:")
	leap := len(s) > second+2 && s[second:second+2] == "60"
	if leap {
		s = s[:second] + "59" + s[second+2:]
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || strings.Contains(s, ",") {
		return time.Time{}, false
	}
	if leap {
		if u := t.UTC(); u.Hour() != 23 || u.Minute() != 59 {
			return time.Time{}, false
		}
		t = t.Truncate(time.Second).Add(time.Second - time.Nanosecond)
	}
	return t, true
}
