package cli

import (
	"errors"
	"fmt"
	"slices"
)

// detailedError carries what an answer said about single fields.
type detailedError struct {
	err     error
	details map[string]any
}

func (e *detailedError) Error() string { return e.err.Error() }
func (e *detailedError) Unwrap() error { return e.err }

// errorDetailMap returns the details inside err, or nil.
func errorDetailMap(err error) map[string]any {
	var d *detailedError
	if errors.As(err, &d) {
		return d.details
	}
	return nil
}

// errorDetails returns one line per detail, sorted by field.
func errorDetails(err error) []string {
	var lines []string
	for field, what := range errorDetailMap(err) {
		lines = append(lines, fmt.Sprintf("%s: %v", field, what))
	}
	slices.Sort(lines)
	return lines
}
