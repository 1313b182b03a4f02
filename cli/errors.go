package cli

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
	exitOK     = 0 // it worked
	exitFailed = 1 // the thing checked is wrong, or the request failed
	exitUsage  = 2 // wrong usage, or it could not be checked
)

// codedError carries an exit code and what to try next.
type codedError struct {
	err  error
	code int
	hint string
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

// usage marks an error as a mistake in how the command was called, or as
// something that kept a check from running: exit code 2.
func usage(err error, hint string) error {
	return &codedError{err: err, code: exitUsage, hint: hint}
}

func usagef(hint, format string, args ...any) error {
	return usage(fmt.Errorf(format, args...), hint)
}

// failed adds a hint to an ordinary failure: exit code 1.
func failed(err error, hint string) error {
	return &codedError{err: err, code: exitFailed, hint: hint}
}

// errReported ends a command with exit code 1 after it has already said why.
var errReported = errors.New("already reported")

// printError writes an error for people, or for programs when the command was
// asked for JSON. People read the names of flags, programs those of the API.
func printError(w io.Writer, cmd *cobra.Command, err error) {
	if errors.Is(err, errReported) {
		return
	}
	var coded *codedError
	hint := ""
	if errors.As(err, &coded) {
		hint = coded.hint
	}
	if wantsJSON(cmd) {
		writeJSONError(w, err, hint)
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(w, "svc: %s\n", clean(line))
	}
	for _, line := range errorDetails(cmd, err) {
		fmt.Fprintf(w, "  %s\n", clean(line))
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
		fmt.Fprintf(w, "svc: %s\n", clean(err.Error()))
		return
	}
	fmt.Fprintf(w, "%s\n", data)
}
