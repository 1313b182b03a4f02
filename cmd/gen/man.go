package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svc/cli"
)

// manDate is the date in the manual pages. It is fixed, so that the pages
// change only when a command does.
const manDate = "2026-11-01"

// writeMan writes the page of a command and of its subcommands.
func writeMan(cmd *cobra.Command, dir string) error {
	name := pageName(cmd)
	errs := []error{os.WriteFile(filepath.Join(dir, name+".1"), manPage(cmd), 0o644)}
	for _, sub := range described(cmd) {
		errs = append(errs, writeMan(sub, dir))
	}
	return errors.Join(errs...)
}

// described returns the subcommands of a command that have pages.
func described(cmd *cobra.Command) (subs []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			subs = append(subs, sub)
		}
	}
	return subs
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage renders the help of a command as a manual page. The texts are those of
// --help: flags with their allowed values, and each default once.
func manPage(cmd *cobra.Command) []byte {
	cmd.InitDefaultHelpFlag()
	p := &page{}
	fmt.Fprintf(p, ".TH %s 1 %s svc \"svc manual\"\n.nh\n.ad l\n", strings.ToUpper(pageName(cmd)), manDate)
	p.section("NAME")
	p.line(roff(pageName(cmd)) + ` \- ` + roff(cmd.Short))
	p.section("SYNOPSIS")
	p.line(`\fB` + roff(cmd.CommandPath()) + `\fR ` + roff(arguments(cmd)))
	p.section("DESCRIPTION")
	p.text(firstOf(cmd.Long, cmd.Short))
	if subs := described(cmd); len(subs) > 0 {
		p.section("COMMANDS")
		for _, sub := range subs {
			p.item(`\fB`+roff(pageName(sub))+`\fR(1)`, roff(sub.Short))
		}
	}
	p.flags("OPTIONS", cmd.LocalFlags())
	p.flags("GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.verbatim(cmd.Example)
	}
	p.topic("EXIT STATUS", "exit-codes")
	if !cmd.HasParent() {
		p.topic("ENVIRONMENT", "environment")
	}
	p.section("SEE ALSO")
	p.line(seeAlso(cmd))
	return p.Bytes()
}

// arguments returns the part of the usage line after the command.
func arguments(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return "COMMAND"
	}
	return strings.TrimSpace(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath()))
}

func seeAlso(cmd *cobra.Command) string {
	refs := []string{`\fBsvc\fR(1)`}
	if parent := cmd.Parent(); parent != nil && parent.HasParent() {
		refs = append(refs, `\fB`+roff(pageName(parent))+`\fR(1)`)
	}
	if !cmd.HasParent() {
		refs = []string{`\fBsvc help topics\fR`}
	}
	return strings.Join(refs, ", ")
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// page is a manual page in roff, with the macros of man(7).
type page struct{ bytes.Buffer }

func (p *page) section(title string) { fmt.Fprintf(p, ".SH %s\n", title) }

// line writes a line of roff. It escapes a dot or an apostrophe at the start of
// the line, which would be a roff request.
func (p *page) line(s string) {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	p.WriteString(s + "\n")
}

// item writes a term and its explanation.
func (p *page) item(term, text string) {
	p.WriteString(".TP\n")
	p.line(term)
	p.line(text)
}

// text writes paragraphs. Indented lines are written verbatim.
func (p *page) text(s string) {
	for i, paragraph := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if i > 0 {
			p.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, " ") {
			p.verbatim(paragraph)
			continue
		}
		for _, line := range strings.Split(paragraph, "\n") {
			p.line(roff(line))
		}
	}
}

// verbatim writes lines without filling.
func (p *page) verbatim(s string) {
	p.WriteString(".EX\n")
	for _, line := range strings.Split(strings.Trim(s, "\n"), "\n") {
		p.line(roff(line))
	}
	p.WriteString(".EE\n")
}

// topic writes a section with the text of 'svc help NAME', without its title.
func (p *page) topic(title, name string) {
	text, err := cli.Topic(name)
	if err != nil {
		panic(err) // the topic is built in, so it exists
	}
	_, text, _ = strings.Cut(text, "\n")
	p.section(title)
	p.text(text)
}

// flags writes a section with the flags that --help lists.
func (p *page) flags(title string, set *pflag.FlagSet) {
	first := true
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		if first {
			p.section(title)
			first = false
		}
		p.item(flagTerm(f), roff(flagText(f)))
	})
}

// flagTerm returns the flag with the type of its value, or its allowed values.
func flagTerm(f *pflag.Flag) string {
	term := `\fB` + roff("--"+f.Name) + `\fR`
	if f.Shorthand != "" {
		term = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + term
	}
	if value, _ := pflag.UnquoteUsage(f); value != "" {
		term += ` \fI` + roff(value) + `\fR`
	}
	return term
}

// flagText returns the description of a flag from pflag's own listing, which
// decides whether to show the default.
func flagText(f *pflag.Flag) string {
	alone := pflag.NewFlagSet("", pflag.ContinueOnError)
	alone.AddFlag(f)
	value, usage := pflag.UnquoteUsage(f)
	listed := strings.TrimSpace(alone.FlagUsages())
	listed = strings.TrimSpace(strings.TrimPrefix(listed[strings.Index(listed, "--"+f.Name)+len("--"+f.Name):], " "+value))
	if !strings.HasPrefix(listed, usage) {
		return usage
	}
	return listed
}

// roff escapes a text. An unescaped hyphen would be typeset as a typographic
// hyphen, and an option copied from the page would not work.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(s)
}
