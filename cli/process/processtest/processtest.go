package processtest

import (
	"os"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
)

// New is an environment without a process: buffers, no terminal, a fixed
// clock.
func New(t *testing.T) (process.Env, *strings.Builder, *strings.Builder) {
	t.Helper()
	var out, errs strings.Builder
	return process.Env{
		Stdin:     strings.NewReader(""),
		Stdout:    &out,
		Stderr:    &errs,
		LookupEnv: func(string) (string, bool) { return "", false },
		Signals:   func() (<-chan os.Signal, func()) { return make(chan os.Signal), func() {} },
		Now:       func() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) },
		PID:       4711,
		Build:     process.Build{Version: "1.2.3"},
	}, &out, &errs
}
