package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	ExitOK     = 0 // success
	ExitFailed = 1 // the check found an error, or the request failed
	ExitUsage  = 2 // wrong usage, or the check could not be made
)

// ExitError is an error with an exit code and a hint about what to do.
type ExitError struct {
	Err  error
	Code int
	hint string
}

func (e *ExitError) Error() string { return e.Err.Error() }

func (e *ExitError) Unwrap() error { return e.Err }

// Usage marks an error in how the command was called, or an error that prevented a
// check: exit code 2.
func Usage(err error, hint string) error {
	return &ExitError{Err: err, Code: ExitUsage, hint: hint}
}

func Usagef(hint, format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...), hint)
}

// Failed adds a hint to an ordinary failure: exit code 1.
func Failed(err error, hint string) error {
	return &ExitError{Err: err, Code: ExitFailed, hint: hint}
}

// ErrReported ends a command with exit code 1 after the command has printed the reason.
var ErrReported = errors.New("already reported")

// PrintError writes an error for people, or as JSON when the command was asked for
// JSON. The text for people has the names of flags, the JSON the fields of the API.
func PrintError(w io.Writer, cmd *cobra.Command, err error) {
	if errors.Is(err, ErrReported) {
		return
	}
	var coded *ExitError
	hint := ""
	if errors.As(err, &coded) {
		hint = coded.hint
	}
	if wantsJSON(cmd) {
		writeJSONError(w, err, hint)
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(w, "svc: %s\n", Clean(line))
	}
	for _, line := range errorDetails(cmd, err) {
		fmt.Fprintf(w, "  %s\n", Clean(line))
	}
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// writeJSONError writes {"error", "details", "hint"} on one line.
func writeJSONError(w io.Writer, err error, hint string) {
	body := struct {
		Error   string         `json:"error"`
		Details map[string]any `json:"details,omitempty"`
		Hint    string         `json:"hint,omitempty"`
	}{err.Error(), errorDetailMap(err), hint}
	data, merr := json.Marshal(body)
	if merr != nil {
		fmt.Fprintf(w, "svc: %s\n", Clean(err.Error()))
		return
	}
	fmt.Fprintf(w, "%s\n", data)
}
