package cli

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process/processtest"
)

// Every command has a description and examples, and its help is equal to the file
// under testdata/help.
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
	env, out, errs := processtest.New(t)
	if code := Main(env, append(words[1:], "--help")); code != command.ExitOK || errs.Len() > 0 {
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

// No help file is left over from a removed command.
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

// Only package process uses the process itself, so that every command can run in a
// test.
func TestOnlyProcessTouchesTheProcess(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, own...) {
		dir := filepath.Dir(path)
		if dir == "process" || dir == "daemon" || dir == "demo" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			if imp.Path.Value == `"os"` || imp.Path.Value == `"os/signal"` {
				t.Errorf("%s imports %s: what touches the process belongs in package process", path, imp.Path.Value)
			}
		}
	}
}

// Details about a field in an error response are shown under the name of the flag
// that sets the field, or under the field's name when there is no such flag.
func TestErrorsNameFlags(t *testing.T) {
	root := NewRoot()
	for _, row := range []struct{ command, field, want string }{
		{"policies create", "condition.toolName", "--tool-name"},
		{"policies create", "condition.type", "--condition"},
		{"policies create", "redactionStrategy", "--redaction-strategy"},
		{"policies create", "name", "name"},
		{"traces list", "startDate", "--since"},
		{"traces list", "minCostUsd", "--min-cost"},
		{"slas create", "p99LatencyMs", "--p99-ms"},
		{"costs budgets create", "limitUsd", "--limit-usd"},
		{"webhooks create", "url", "--url-file"},
		{"agents get", "body", "body"},
	} {
		cmd, _, err := root.Find(strings.Fields(row.command))
		if err != nil {
			t.Fatal(err)
		}
		if got := command.FlagOf(cmd, row.field); got != row.want {
			t.Errorf("%s: %s is shown as %s, want %s", row.command, row.field, got, row.want)
		}
	}
}
