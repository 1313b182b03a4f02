package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"svc/cli"
)

// A manual page has the flags of --help in the same words: their allowed
// values, and each default once.
func TestManualPagesHaveTheFlagsOfHelp(t *testing.T) {
	pages := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		page := plain(string(manPage(cmd)))
		pages++
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages() + cmd.InheritedFlags().FlagUsages()) {
			flag, text, _ := strings.Cut(strings.TrimSpace(line), "   ")
			want := flag + "\n" + strings.TrimSpace(text) + "\n"
			if !strings.Contains(page, want) {
				t.Errorf("the page of %q lacks %q", cmd.CommandPath(), want)
			}
		}
		for line := range strings.Lines(page) {
			if strings.Count(line, "(default") > 1 {
				t.Errorf("the page of %q has two defaults: %q", cmd.CommandPath(), line)
			}
		}
		for _, sub := range described(cmd) {
			check(sub)
		}
	}
	check(cli.NewRoot())
	if pages < 40 {
		t.Errorf("only %d pages", pages)
	}
}

// plain removes fonts and escapes from a page.
func plain(page string) string {
	return strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\-`, "-", `\&`, "", `\e`, `\`).Replace(page)
}
