package arguments

import "encoding/json"

// Config is a condition in the configuration: a map from JSON Pointers to matchers. All entries
// must hold.
type Config map[string]Matcher

// Matcher is the matcher of one argument. All members that are set must hold.
type Matcher struct {
	Test `yaml:",inline"`
	// Not holds when its test does not. A value of a type that the test does not take is a wrong
	// type, also under Not.
	Not *Test `yaml:"not" json:"not,omitempty"`
	// Match sets how many of the values under a * must match: any or all. The default is all for
	// an allow rule, and any for every other action.
	Match string `yaml:"match" json:"match,omitempty"`
}

// Test is a condition on one value.
type Test struct {
	// Equals is a string, a number, a boolean or null. Numbers are equal as decimals: 1
	// and 1.0 are.
	Equals json.RawMessage `yaml:"equals" json:"equals,omitempty"`
	// OneOf lists values; one of them must be equal, as in equals.
	OneOf []json.RawMessage `yaml:"one_of" json:"one_of,omitempty"`
	// Prefix is a prefix of the string.
	Prefix *string `yaml:"prefix" json:"prefix,omitempty"`
	// Suffix is a suffix of the string.
	Suffix *string `yaml:"suffix" json:"suffix,omitempty"`
	// Contains is a substring of the string.
	Contains *string `yaml:"contains" json:"contains,omitempty"`
	// Glob is a shell-style pattern for a whole string; * matches / too.
	Glob *string `yaml:"glob" json:"glob,omitempty"`
	// Regex is an RE2 expression for a whole string.
	Regex *string `yaml:"regex" json:"regex,omitempty"`
	// Min is the smallest number that matches.
	Min json.RawMessage `yaml:"min" json:"min,omitempty"`
	// Max is the largest number that matches.
	Max json.RawMessage `yaml:"max" json:"max,omitempty"`
	// MaxLength bounds the characters of a string, the elements of an array or the members
	// of an object.
	MaxLength *int `yaml:"max_length" json:"max_length,omitempty"`
	// Type is the name of a JSON Schema type: string, number, integer, boolean, null,
	// array or object.
	Type *string `yaml:"type" json:"type,omitempty"`
	// Absent is true if the argument must be absent.
	Absent bool `yaml:"absent" json:"absent,omitempty"`
	// PathWithin is an absolute directory; the value is the path of it or of something in it,
	// after percent escapes, dot segments and repeated slashes are resolved. Symbolic links are
	// not resolved.
	PathWithin *string `yaml:"path_within" json:"path_within,omitempty"`
	// HostIn lists hosts; *. before a name matches one or more labels. The value is a URL, a
	// host, or host:port.
	HostIn []string `yaml:"host_in" json:"host_in,omitempty"`
}
