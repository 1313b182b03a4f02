package probe

import (
	"context"
	"errors"
	"strings"

	"svc/gateway/child"
	"svc/gateway/config"
	"svc/gateway/stdio"
	"svc/gateway/targets"
	"svc/gateway/upstream"
)

// explainProgram describes why a program could not be read.
func (r *Result) explainProgram(f *config.File, err error) {
	cause := upstream.CauseOf(err)
	r.Cause = cause.Text
	switch {
	case errors.Is(err, child.ErrStart):
		r.Advice = "correct command: the program is looked up in the PATH that the gateway has, and runs in its own folder"
	case errors.Is(err, upstream.ErrExited):
		var exit *stdio.ExitError
		if errors.As(err, &exit) {
			r.explainStderr(f, exit.Stderr())
		}
		if r.Advice != "" {
			return
		}
		r.Advice = "run the command by hand to see what it prints; of the gateway's variables it gets only those of env and inherit_env"
	case errors.Is(err, upstream.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		r.Cause = "no answer in time"
		r.Advice = "see whether it downloads something (start_timeout), or waits for other input than MCP on its standard input"
	default:
		r.Cause, r.Advice = printable(err.Error()), "see whether the program is an MCP server on stdio"
	}
}

// explainStderr adds the program's standard error before it ended, and advice if it was
// denied a folder that is hidden from it.
func (r *Result) explainStderr(f *config.File, text string) {
	if text == "" {
		return
	}
	r.Cause += ": " + upstream.Printable(text, maxStderr)
	if lower := strings.ToLower(text); !child.Here().Landlock || !containsAny(lower, "eacces", "permission denied", "permissionerror") {
		return
	}
	for _, folder := range targets.Hidden(f) {
		if strings.Contains(text, folder) {
			r.Advice = "the gateway hides " + folder + " from programs, because it keeps private files there: move the program's files elsewhere, or the configuration, the audit file and state_dir into folders of their own"
			return
		}
	}
}

// maxStderr bounds the bytes shown of a program's standard error.
const maxStderr = 600
