package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Numbers have one notation: forms that YAML 1.1 and 1.2 read differently (0123, 1_000,
// 0x10, 1:30) are rejected.
var (
	wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	anyNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

func (l *loader) decodeScalar(n *yaml.Node, v reflect.Value, at *path, f field) {
	t := v.Type()
	switch {
	case t.Implements(boolOrTextType) && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool":
		v.SetString(strings.ToLower(n.Value))
	case t == durationType:
		l.decodeDuration(n, v, at)
	case t == timeType:
		l.decodeTime(n, v, at)
	case v.CanAddr() && v.Addr().Type().Implements(textType):
		l.decodeText(n, v.Addr().Interface().(encoding.TextUnmarshaler), at, f)
	default:
		switch t.Kind() {
		case reflect.String:
			if s, ok := l.text(n, at, f); ok {
				v.SetString(s)
			}
		case reflect.Bool:
			l.decodeBool(n, v, at)
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			l.decodeInt(n, v, at)
		case reflect.Float32, reflect.Float64:
			l.decodeFloat(n, v, at)
		default:
			l.nodef(n, at, "internal", "", "a field of type %s is not supported", t)
		}
	}
}

// text decodes a string. A value is text if it is quoted or cannot be of another type. A
// date is text as written, because a revision such as 2025-06-18 is text to its author.
// Numbers and booleans need quotes: parsers differ on the value of 0123.
func (l *loader) text(n *yaml.Node, at *path, f field) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		l.mismatch(n, at, "text", "")
		return "", false
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
	case "!!null":
		l.mismatch(n, at, "text", `write "" for empty text, or remove the key`)
		return "", false
	default:
		hint := "put it in quotes"
		if !f.secret {
			hint = fmt.Sprintf("put it in quotes: %q", short(n.Value))
		}
		l.nodef(n, at, "wrong-type", hint, "expected text, found %s", describe(n, !f.secret))
		return "", false
	}
	s := n.Value
	if strings.ContainsRune(s, 0) {
		l.node(n, at, "wrong-type", "", "must not hold a NUL character")
		return "", false
	}
	return l.expand(n, s, at, f)
}

func (l *loader) decodeBool(n *yaml.Node, v reflect.Value, at *path) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return
	}
	hint := ""
	if n.Kind == yaml.ScalarNode {
		switch strings.ToLower(n.Value) {
		case "yes", "on", "y", "1":
			hint = "write true"
		case "no", "off", "n", "0":
			hint = "write false"
		case "true", "false":
			hint = "remove the quotes"
		}
	}
	l.mismatch(n, at, "true or false", hint)
}

func (l *loader) decodeInt(n *yaml.Node, v reflect.Value, at *path) {
	if !l.number(n, at, wholeNumber, "a whole number") {
		return
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v.OverflowInt(i) {
		l.nodef(n, at, "out-of-range", "", "%s is too large", short(n.Value))
		return
	}
	v.SetInt(i)
}

func (l *loader) decodeFloat(n *yaml.Node, v reflect.Value, at *path) {
	if !l.number(n, at, anyNumber, "a number") {
		return
	}
	x, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsInf(x, 0) || v.OverflowFloat(x) {
		l.nodef(n, at, "out-of-range", "", "%s is too large", short(n.Value))
		return
	}
	v.SetFloat(x)
}

// number reports whether n matches the pattern of a number, and reports an error if it
// does not.
func (l *loader) number(n *yaml.Node, at *path, pattern *regexp.Regexp, expected string) bool {
	if n.Kind != yaml.ScalarNode {
		l.mismatch(n, at, expected, "")
		return false
	}
	if n.Style == 0 && pattern.MatchString(n.Value) {
		return true
	}
	hint := ""
	switch {
	case n.Style != 0 && pattern.MatchString(n.Value):
		hint = "remove the quotes"
	case n.ShortTag() == "!!int":
		hint = "write it in decimal digits, without leading zeros, signs or separators"
	}
	l.mismatch(n, at, expected, hint)
	return false
}

func (l *loader) decodeDuration(n *yaml.Node, v reflect.Value, at *path) {
	const expected, hint = "a duration", "write a number and a unit, such as 500ms, 30s, 5m or 24h"
	if n.Kind != yaml.ScalarNode || isNull(n) {
		l.mismatch(n, at, expected, hint)
		return
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil {
		l.mismatch(n, at, expected, hint)
		return
	}
	v.SetInt(int64(d))
}

func (l *loader) decodeTime(n *yaml.Node, v reflect.Value, at *path) {
	if n.Kind == yaml.ScalarNode {
		for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
			if ts, err := time.Parse(layout, n.Value); err == nil {
				v.Set(reflect.ValueOf(ts.UTC()))
				return
			}
		}
	}
	l.mismatch(n, at, "a time", "write it as 2026-01-31T15:04:05Z, or a date alone for midnight UTC")
}

func (l *loader) mismatch(n *yaml.Node, at *path, expected, hint string) {
	l.nodef(n, at, "wrong-type", hint, "expected %s, found %s", expected, describe(n, true))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe describes the value in the file, for an error.
func describe(n *yaml.Node, value bool) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "no value"
	}
	kind := "the text"
	switch n.ShortTag() {
	case "!!int", "!!float":
		kind = "the number"
	case "!!bool":
		kind = "the truth value"
	case "!!timestamp":
		kind = "the date"
	}
	if !value {
		return strings.Replace(kind, "the ", "a ", 1)
	}
	if kind == "the text" {
		return kind + " " + strconv.Quote(short(n.Value))
	}
	return kind + " " + short(n.Value)
}

// short truncates a value for an error.
func short(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
