package arguments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// testNames and matcherNames are the members of a matcher; a not has only those of a test.
var (
	testNames = []string{"equals", "one_of", "prefix", "suffix", "contains", "glob", "regex", "min", "max", "max_length", "type", "absent",
		"path_within", "host_in"}
	matcherNames = append([]string{"not", "match"}, testNames...)
)

// Parse parses a condition in JSON, and returns all its errors. Member names are compared byte
// for byte, because other parsers would treat a member in another case as a different one.
func Parse(raw []byte) (Config, []*Error) {
	raw = bytes.TrimSpace(raw)
	var matchers map[string]json.RawMessage
	if kindOf(raw) != kindObject || json.Unmarshal(raw, &matchers) != nil {
		return nil, []*Error{{Message: "the condition is not an object", Hint: "map JSON Pointers to matchers, as in {\"/path\": {\"path_within\": \"/srv/data\"}}"}}
	}
	var errs []*Error
	cfg := make(Config, len(matchers))
	for _, pointer := range slices.Sorted(maps.Keys(matchers)) {
		m, err := parseMatcher(pointer, matchers[pointer])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		cfg[pointer] = m
	}
	if len(errs) > 0 {
		return nil, errs
	}
	if errs := Check(cfg); len(errs) > 0 {
		return nil, errs
	}
	return cfg, nil
}

// parseMatcher parses the matcher of one pointer.
func parseMatcher(pointer string, raw json.RawMessage) (m Matcher, wrong *Error) {
	members, wrong := membersOf(pointer, raw, false, matcherNames)
	if wrong != nil {
		return m, wrong
	}
	if not, ok := members["not"]; ok {
		if _, wrong := membersOf(pointer, not, true, testNames); wrong != nil {
			return m, wrong
		}
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, typeError(pointer, err)
	}
	return m, nil
}

// membersOf returns the members of a matcher and reports unknown ones.
func membersOf(pointer string, raw json.RawMessage, not bool, names []string) (map[string]json.RawMessage, *Error) {
	var members map[string]json.RawMessage
	if kindOf(raw) != kindObject || json.Unmarshal(raw, &members) != nil {
		return nil, &Error{Pointer: pointer, Not: not, Message: "the matcher is not an object", Hint: `write one, as in {"equals": 1}`}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(names, name) {
			return nil, &Error{Pointer: pointer, Key: name, Not: not, Message: "the member is unknown", Hint: "use one of " + strings.Join(names, ", ")}
		}
		if name != "equals" && kindOf(members[name]) == kindNull {
			return nil, &Error{Pointer: pointer, Key: name, Not: not, Message: "the member is null", Hint: "remove it"}
		}
	}
	return members, nil
}

// typeError reports the member whose value has a wrong type.
func typeError(pointer string, err error) *Error {
	e := &Error{Pointer: pointer, Message: "a member has a value of another type", Hint: "docs/policy-arguments.md lists the type of each"}
	if t, ok := err.(*json.UnmarshalTypeError); ok && t.Field != "" {
		path := strings.Split(t.Field, ".")
		e.Key, e.Not = path[len(path)-1], slices.Contains(path, "not")
		e.Message = fmt.Sprintf("the member is a %s, and takes a %s", t.Value, typeWords(t.Type.String()))
	}
	return e
}

// typeWords has the JSON name of each Go type of [Test].
func typeWords(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "list"
	case goType == "int":
		return "whole number"
	case goType == "bool":
		return "boolean"
	}
	return "string"
}
