package devcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/cli/process/processtest"
)

// The last command names the program so that a shell finds it.
func TestDevWatchCommand(t *testing.T) {
	here, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "svc"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	for _, row := range []struct{ name, program, path, want string }{
		{"by its path", "/opt/svc", "", "/opt/svc tui"},
		{"by its name", "/opt/svc", dir, "svc tui"},
		{"a path with a blank", "/opt/my svc's/x", "", `'/opt/my svc'\''s/x' tui`},
		{"go run", "/tmp/go-build1/exe/main", "", "go run ./cmd/svc tui"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.name == "go run" {
				if err := os.MkdirAll("cmd/svc", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile("cmd/svc/main.go", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env, _, _ := processtest.New(t)
			env.Executable = row.program
			env.LookupEnv = func(name string) (string, bool) { return row.path, name == "PATH" }
			s := &devStack{env: env}
			if got := s.watchCommand(); !strings.HasSuffix(got, "\n  "+row.want) {
				t.Errorf("got %q, want %q at its end", got, row.want)
			}
		})
	}
}
