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

// Every command says what it does and shows how, and its help is what is
// checked in under testdata/help.
func TestCommands(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := c.CommandPath()
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short text or no example", path)
		}
		if c.RunE == nil {
			t.Errorf("%s does nothing", path)
		}
		if c.HasParent() && !c.Parent().HasParent() && c.GroupID == "" {
			t.Errorf("%s is in no group of the help", path)
		}
		t.Run(path, func(t *testing.T) { compareHelp(t, path) })
		for _, sub := range c.Commands() {
			if sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(NewRoot())
}

func compareHelp(t *testing.T, path string) {
	words := strings.Fields(path)
	env, out, errs := testEnv(t)
	if code := Main(env, append(words[1:], "--help")); code != exitOK || errs.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, errs)
	}
	golden := filepath.Join("testdata", "help", strings.Join(words, "-")+".txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != string(want) {
		t.Errorf("%s differs from %s (go test -update rewrites it):\n%s", path, golden, got)
	}
}

// No help is left of a command that is gone.
func TestNoStaleHelp(t *testing.T) {
	files, err := filepath.Glob("testdata/help/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	known := make(map[string]bool)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		known[strings.ReplaceAll(c.CommandPath(), " ", "-")+".txt"] = true
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(NewRoot())
	for _, f := range files {
		if !known[filepath.Base(f)] {
			t.Errorf("%s belongs to no command", f)
		}
	}
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
