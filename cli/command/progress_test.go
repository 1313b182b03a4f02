package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
)

// TestLongProgress: a command that takes minutes writes a line every ten seconds where
// there is no terminal, and redraws one on a terminal.
func TestLongProgress(t *testing.T) {
	for _, row := range []struct {
		name string
		tty  bool
		want string
	}{
		{"lines", false, "copy: 33 % of 300 MiB, 10 MiB/s\ncopy: 67 % of 300 MiB, 10 MiB/s\ncheck: 50 MiB, 10 MiB/s\n"},
		{"terminal", true, "\r\x1b[K[........................] copy: 3 % of 300 MiB, 10 MiB/s\r\x1b[K"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Unix(0, 0)
			p := NewLongProgress(process.Env{Stderr: &out, StderrTTY: row.tty, Now: func() time.Time { return now }})
			for i := range 25 {
				p.Step("copy", int64(i)*10<<20, 300<<20)
				now = now.Add(time.Second)
			}
			for i := range 10 {
				p.Step("check", int64(i)*10<<20, 0)
				now = now.Add(time.Second)
			}
			p.End()
			got := out.String()
			if !row.tty && got != row.want || row.tty && !strings.HasPrefix(got, row.want) {
				t.Errorf("%q", got)
			}
			if row.tty && !strings.HasSuffix(got, "\r\x1b[K") {
				t.Errorf("the line stays: %q", got)
			}
		})
	}
}
