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

// withDetails adds what is known about single fields to an error.
func withDetails(err error, fields map[string]string) error {
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

// errorDetails returns one line per detail, sorted by field.
func errorDetails(err error) []string {
	var lines []string
	for field, what := range errorDetailMap(err) {
		lines = append(lines, fmt.Sprintf("%s: %v", field, what))
	}
	slices.Sort(lines)
	return lines
}
