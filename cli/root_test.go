package cli

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command says what it does, shows how, and has its help checked in.
func TestCommands(t *testing.T) {
	var goldens strings.Builder
	scripts, err := filepath.Glob("testdata/script/help_*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		goldens.Write(data)
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := c.CommandPath()
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short text or no example", path)
		}
		if c.RunE == nil {
			t.Errorf("%s does nothing", path)
		}
		if !strings.Contains(goldens.String(), "exec "+path+" --help\n") {
			t.Errorf("the help of %s is not in testdata/script/help_*.txtar", path)
		}
		if c.HasParent() && !c.Parent().HasParent() && c.GroupID == "" {
			t.Errorf("%s is in no group of the help", path)
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(NewRoot())
}

// Only env.go touches the process, so that every command can run in a test.
func TestOnlyEnvTouchesProcess(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if path == "env.go" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			if imp.Path.Value == `"os"` || imp.Path.Value == `"os/signal"` {
				t.Errorf("%s imports %s: what touches the process belongs in env.go", path, imp.Path.Value)
			}
		}
	}
}

func TestEditDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"listen", "listn", 1}, {"grace", "trace", 1}, {"kitten", "sitting", 3}, {"abc", "abc", 0},
	}
	for _, tt := range tests {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := editDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestColour(t *testing.T) {
	tests := []struct {
		name string
		tty  bool
		vars map[string]string
		want bool
	}{
		{"terminal", true, nil, true},
		{"pipe", false, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, false},
		{"empty NO_COLOR counts as unset", true, map[string]string{"NO_COLOR": ""}, true},
		{"dumb terminal", true, map[string]string{"TERM": "dumb"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := Env{LookupEnv: func(k string) (string, bool) { v, ok := tt.vars[k]; return v, ok }}
			if got := env.colour(tt.tty); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

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
