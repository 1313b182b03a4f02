package cli

import (
	"strings"
	"testing"
)

func TestConfirm(t *testing.T) {
	tests := []struct {
		name  string
		tty   bool
		yes   bool
		input string
		code  int
	}{
		{"--yes", false, true, "", exitOK},
		{"no terminal", false, false, "y\n", exitUsage},
		{"y", true, false, "y\n", exitOK},
		{"YES", true, false, "YES\n", exitOK},
		{"enter", true, false, "\n", exitFailed},
		{"n", true, false, "n\n", exitFailed},
		{"end of input", true, false, "", exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, _, _ := testEnv(t)
			env.StdinTTY, env.Stdin = tt.tty, strings.NewReader(tt.input)
			err := confirm(env, tt.yes, "delete it")
			code := exitOK
			if err != nil {
				code = err.(*codedError).code
			}
			if code != tt.code {
				t.Errorf("got %d (%v), want %d", code, err, tt.code)
			}
		})
	}
}
