package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Severity is the effect of a finding on the use of the file.
type Severity uint8

// The severities. An Error makes the file unusable; a Warning has no effect besides being shown;
// an Info is about something that could not be checked, or a remark.
const (
	Error Severity = iota
	Warning
	Info
)

// String returns "error", "warning" or "info".
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Info:
		return "info"
	}
	return "error"
}

// MarshalText writes the severity as String does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text of MarshalText.
func (s *Severity) UnmarshalText(text []byte) error {
	switch string(text) {
	case "error":
		*s = Error
	case "warning":
		*s = Warning
	case "info":
		*s = Info
	default:
		return fmt.Errorf("unknown severity %q", text)
	}
	return nil
}

// Pos is a position in a file. Line and Column count from 1, columns in characters; 0 means not
// known.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String returns file:line:column, without the parts that are not known.
func (p Pos) String() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
		if p.Column > 0 {
			s += ":" + strconv.Itoa(p.Column)
		}
	}
	return s
}

// Finding is one error, warning or remark about a file.
type Finding struct {
	// Code is a stable kebab-case name of the kind of finding.
	Code string
	// Severity determines whether the file can be used nevertheless.
	Severity Severity
	// Path is the path of the field, as in policy.rules[3].when.method; empty for the file as a
	// whole.
	Path string
	// Message describes the problem, in one line without a final full stop.
	Message string
	// Hint describes what to do; may be empty.
	Hint string
	// Pos is the position; zero until a loader sets it.
	Pos Pos
	// Excerpt is the line of the file, with secrets masked and long lines cut to a window; empty
	// when not known. Caret is the position in it, counted in characters from 1, and 0 without a
	// position.
	Excerpt string
	Caret   int
}

// Error returns the finding on one line: position, path, message and hint.
func (f Finding) Error() string {
	s := ""
	if p := f.Pos.String(); p != "" {
		s = p + ": "
	}
	if f.Path != "" {
		s += f.Path + ": "
	}
	s += f.Message
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// Sort orders findings by file, line and column, then path, severity, code and message, so that
// every check of one file prints the same.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message),
		)
	})
}

// HasErrors reports whether one of the findings is an Error.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// Findings is an error that carries every finding of a check.
type Findings []Finding

// Error returns the first error finding and how many more there are.
func (fs Findings) Error() string {
	first, n := -1, 0
	for i, f := range fs {
		if f.Severity == Error {
			if first < 0 {
				first = i
			}
			n++
		}
	}
	switch {
	case first < 0:
		return "no errors"
	case n == 1:
		return fs[first].Error()
	case n == 2:
		return fs[first].Error() + ", and 1 more error"
	default:
		return fmt.Sprintf("%s, and %d more errors", fs[first].Error(), n-1)
	}
}

// Err returns the findings as a [Findings] error, or nil when none of them is an
// Error.
func Err(findings []Finding) error {
	if !HasErrors(findings) {
		return nil
	}
	return Findings(findings)
}
