package policycmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/base/diag"
	"svc/gateway/check"
	"svc/gateway/config"
)

// Formats of svc policy lint other than text and JSON.
const (
	formatSARIF  command.Format = "sarif"
	formatGitHub command.Format = "github"
)

type lintOptions struct {
	file       string
	strict     bool
	checkFiles bool
	format     command.Format
}

func newPolicyLintCmd(env process.Env) *cobra.Command {
	o := lintOptions{format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "lint FILE",
		Short: "Validate a gateway config and warn about likely mistakes",
		Long: `Validate a gateway config as start-up does, and warn about likely mistakes that
start-up accepts: rules that never decide, routes that no request reaches, and
insecure settings. All findings are printed at once with line and column, errors
first.

Only FILE is read (- for standard input). Unset variables are reported as info, and so
is each ${file:PATH}, whose file is never opened; their values are not checked.
--check-files also checks this machine: variables, license, certificates, and whether
the servers that the file names accept connections.

A comment with a reason silences a warning for the entry that it belongs to:

  # svc-lint: ignore redact-request-only responses never contain cards

The exit code is 1 when there are errors, or warnings with --strict, and 2 when
the file cannot be read. docs/lint has a page for each warning.`,
		Example: `  svc policy lint svc.yaml
  svc policy lint svc.yaml --strict -o github
  svc policy lint svc.yaml -o sarif >svc.sarif
  svc policy lint /etc/svc/svc.yaml --check-files`,
		Args:              command.WantArgs("a FILE"),
		ValidArgsFunction: completeConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return lintPolicy(cmd.Context(), env, o)
		},
	}
	cmd.Flags().BoolVar(&o.strict, "strict", false, "exit with 1 when there are warnings")
	cmd.Flags().BoolVar(&o.checkFiles, "check-files", false, "also check the files and servers that the config names")
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON, formatSARIF, formatGitHub)
	return cmd
}

func lintPolicy(ctx context.Context, env process.Env, o lintOptions) error {
	doc := ReadDocument(env, o.file, config.Options{UnsetIsInfo: !o.checkFiles})
	found := check.Lint(doc, env.Now())
	if o.checkFiles {
		found = append(found, checkMachine(ctx, env, doc)...)
		check.Sort(found)
	}
	if err := writeFindings(env, found, o.format); err != nil {
		return err
	}
	if doc.Unreadable() {
		return &command.ExitError{Err: command.ErrReported, Code: command.ExitUsage}
	}
	fmt.Fprintf(env.Stderr, "%s: %s\n", command.Clean(o.file), tally(found))
	if diag.HasErrors(found) || o.strict && bySeverity(found, diag.Warning) > 0 {
		return command.ErrReported
	}
	return nil
}

// checkMachine checks the machine for a configuration without errors.
func checkMachine(ctx context.Context, env process.Env, doc *config.Document) []diag.Finding {
	file := doc.File()
	if file == nil {
		return nil
	}
	return doc.Complete(check.Check(ctx, file, check.PreflightOptions{
		LicenseKey: env.Build.LicensePEM(),
		Now:        env.Now,
	}))
}

func writeFindings(env process.Env, found []diag.Finding, f command.Format) error {
	write := diag.WriteText
	switch f {
	case command.FormatJSON:
		write = diag.WriteJSON
	case formatGitHub:
		write = diag.WriteGitHub
	case formatSARIF:
		tool := diag.SARIFTool{Name: "svc", Version: env.Build.Info().Version, RuleHelp: check.Summary}
		write = func(w io.Writer, found []diag.Finding) error { return diag.WriteSARIF(w, tool, found) }
	}
	return write(env.Stdout, found)
}

// tally returns the numbers of findings as a text.
func tally(found []diag.Finding) string {
	var parts []string
	for _, s := range []diag.Severity{diag.Error, diag.Warning, diag.Info} {
		if n := bySeverity(found, s); n == 1 {
			parts = append(parts, "1 "+s.String())
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %ss", n, s))
		}
	}
	if len(parts) == 0 {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}

// bySeverity counts the findings with a severity.
func bySeverity(found []diag.Finding, s diag.Severity) int {
	n := 0
	for _, f := range found {
		if f.Severity == s {
			n++
		}
	}
	return n
}
