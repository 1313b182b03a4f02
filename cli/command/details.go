package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// detailedError has the details of an error response about single fields.
type detailedError struct {
	err     error
	details map[string]any
}

func (e *detailedError) Error() string { return e.err.Error() }
func (e *detailedError) Unwrap() error { return e.err }

// WithDetails adds details about single fields to an error.
func WithDetails(err error, fields map[string]string) error {
	if len(fields) == 0 {
		return err
	}
	details := make(map[string]any, len(fields))
	for k, v := range fields {
		details[k] = v
	}
	return &detailedError{err, details}
}

// errorDetailMap returns the details inside err, or nil.
func errorDetailMap(err error) map[string]any {
	var d *detailedError
	if errors.As(err, &d) {
		return d.details
	}
	return nil
}

// errorDetails returns one line per detail, sorted by field. A field that a flag of
// the command sets is shown by the name of the flag.
func errorDetails(cmd *cobra.Command, err error) []string {
	var lines []string
	for field, what := range errorDetailMap(err) {
		lines = append(lines, fmt.Sprintf("%s: %v", FlagOf(cmd, field), what))
	}
	slices.Sort(lines)
	return lines
}

// flagNames maps fields to the flags that do not have the name of their field.
var flagNames = map[string]string{
	"startDate": "since", "endDate": "until", "minCostUsd": "min-cost", "maxCostUsd": "max-cost",
	"condition.type": "condition", "p99LatencyMs": "p99-ms", "errorRatePercent": "error-rate", "url": "url-file",
}

// FlagOf returns the flag of a command that sets a field of the API, or the field
// itself when there is none.
func FlagOf(cmd *cobra.Command, field string) string {
	if field == "name" {
		return field // an argument of most commands
	}
	short := field[strings.LastIndexByte(field, '.')+1:]
	for _, name := range []string{flagNames[field], kebab(field), flagNames[short], kebab(short)} {
		if f := cmd.Flags().Lookup(name); name != "" && f != nil && !f.Hidden {
			return "--" + name
		}
	}
	return field
}

// kebab converts a camelCase name to the form of flags.
func kebab(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
