package command

import (
	"strings"
	"testing"

	"svc/cli/process/processtest"
)

func TestConfirm(t *testing.T) {
	tests := []struct {
		name  string
		tty   bool
		yes   bool
		input string
		code  int
	}{
		{"--yes", false, true, "", ExitOK},
		{"no terminal", false, false, "y\n", ExitUsage},
		{"y", true, false, "y\n", ExitOK},
		{"YES", true, false, "YES\n", ExitOK},
		{"enter", true, false, "\n", ExitFailed},
		{"n", true, false, "n\n", ExitFailed},
		{"end of input", true, false, "", ExitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, _, _ := processtest.New(t)
			env.StdinTTY, env.Stdin = tt.tty, strings.NewReader(tt.input)
			err := Confirm(env, tt.yes, "delete it")
			code := ExitOK
			if err != nil {
				code = err.(*ExitError).Code
			}
			if code != tt.code {
				t.Errorf("got %d (%v), want %d", code, err, tt.code)
			}
		})
	}
}
