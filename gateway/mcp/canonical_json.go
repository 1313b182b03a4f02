package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// errNotOneValue is the error of a text that is not exactly one JSON value.
var errNotOneValue = errors.New("not exactly one JSON value")

// maxExponent bounds the digits of an exponent. A number with a longer exponent keeps its
// spelling, so that equal numbers of that kind may differ.
const maxExponent = 64

// Value decodes one JSON value: objects as map[string]any, numbers as json.Number. raw must have
// no duplicate members, which [Scan] checks; of duplicates the last one would be used.
func Value(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotOneValue, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errNotOneValue
	}
	return v, nil
}

// JSON returns the canonical form of one JSON value; see [Value].
func JSON(raw []byte) ([]byte, error) {
	v, err := Value(raw)
	if err != nil {
		return nil, err
	}
	return Append(nil, v), nil
}

// CallForm returns the canonical form of the parameters of a scanned request, without the members that
// differ between a request and its repetition: _meta, and the answers to questions with their
// requestState. Two requests have equal forms exactly when these parameters are equal as JSON values;
// see [JSON].
func CallForm(m *Message) ([]byte, error) {
	return JSON(AppendObject(nil, m.Body, m.Spans.Params, func(name []byte) bool {
		switch string(name) {
		case "inputResponses", "requestState", "_meta":
			return true
		}
		return false
	}))
}

// Append appends the canonical form of a value that [Value] returned.
func Append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return AppendString(dst, v)
	case json.Number:
		return append(dst, canonicalNumber(string(v))...)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = Append(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		// The order of UTF-8 bytes is that of code points.
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, name), ':')
			dst = Append(dst, v[name])
		}
		return append(dst, '}')
	}
	panic(fmt.Sprintf("canonical: a %T is no decoded JSON value", v))
}

// canonicalNumber returns the canonical form of a JSON number: an integer without trailing zeros, and its
// power of ten (12, 12e-1, 12e3). The value is exact; -0 is 0.
func canonicalNumber(s string) string {
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], strings.TrimPrefix(s[i+1:], "+")
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	kept := strings.TrimRight(digits, "0")
	power, ok := new(big.Int), true
	if exponent != "" {
		if len(exponent) > maxExponent {
			return s
		}
		if power, ok = power.SetString(exponent, 10); !ok {
			return s
		}
	}
	power.Add(power, big.NewInt(int64(len(digits)-len(kept)-len(fraction))))
	if negative {
		kept = "-" + kept
	}
	if power.Sign() == 0 {
		return kept
	}
	return kept + "e" + power.String()
}
