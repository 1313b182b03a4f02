package policycmd

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/check"
)

type replayOptions struct {
	file   string
	was    string
	audits []string
	exit   bool
	format command.Format
}

func newPolicyReplayCmd(env process.Env) *cobra.Command {
	o := replayOptions{format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "replay FILE AUDIT...",
		Short: "Replay recorded requests against another config",
		Long: `Read the requests that audit files record, and show which of them the rules of
another config would decide differently. The changes are printed in groups: from
which action and rule to which, for which tools, for how many callers, with
examples.

An audit line does not have all properties that a rule can match. It lacks the
groups and scopes of callers: if a rule with claims could match, the line is
counted as undecidable. Lines that were not decided by a rule are skipped and
counted by reason. If a rule applies a rate limit or a guardrail, that action is the
decision; the replay does not show whether the call would have passed. Calls that
would need the approval of a person are counted by rule; a line of a call that asked
for approval is no difference, whatever was decided.

Labels of data_flow are followed from line to line: at the first line no caller has
one, and a label counts from the end of the call that set it. Name the files in the
order of their lines, the oldest first. What sets a label is told by tool and upstream;
entries with uri_prefix or injection_score look at content, which lines do not have.
With --was those that are the same in both configs are as the lines recorded them. A
line of which a rule may decide otherwise by such a label is undecidable.

Each AUDIT is read once from its beginning, in bounded memory; "-" is standard
input. Rotated files are not added automatically: name each of them.`,
		Example: `  svc policy replay new.yaml /var/log/svc/audit.jsonl
  svc policy replay new.yaml audit.jsonl* -o json
  svc policy replay new.yaml audit.jsonl --was svc.yaml
  zcat old.jsonl.gz | svc policy replay new.yaml - --exit-code`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return command.WantArgs("a FILE", "an AUDIT")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.file, o.audits = args[0], args[1:]
			return replayPolicy(env, o)
		},
	}
	cmd.Flags().StringVar(&o.was, "was", "", "gateway config that the audit files were written under, for the labels that they record")
	cmd.Flags().BoolVar(&o.exit, "exit-code", false, "exit with 1 when a decision would change")
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON)
	return cmd
}

func replayPolicy(env process.Env, o replayOptions) error {
	_, engine, err := loadEngine(env, o.file)
	if err != nil {
		return err
	}
	r := engine.NewReplay()
	if o.was != "" {
		_, was, err := LoadPolicy(env, o.was)
		if err != nil {
			return err
		}
		r.RecordedUnder(&was.DataFlow)
	}
	p := command.NewProgress(env, o.audits)
	for _, path := range o.audits {
		if err := replayFile(env, r, p, path); err != nil {
			p.End()
			return command.Usage(err, "no results are shown because one file could not be read")
		}
	}
	p.End()
	report := r.Report()
	if o.format == command.FormatJSON {
		err = command.WriteValue(env.Stdout, command.FormatJSON, report)
	} else {
		err = writeReplay(env.Stdout, report)
	}
	if err != nil {
		return err
	}
	if report.Malformed > 0 {
		fmt.Fprintf(env.Stderr, "svc: %s could not be read as audit lines\n", lineCount(report.Malformed))
	}
	switch {
	case report.Lines == report.Malformed && report.Malformed > 0:
		return command.Usagef("audit files are written by svc gateway, at audit.path", "none of the lines is an audit line")
	case o.exit && report.ChangedLines() > 0:
		return command.ErrReported
	}
	return nil
}

func replayFile(env process.Env, r *check.Replay, p *command.Progress, path string) (err error) {
	var in io.Reader = env.Stdin
	if path != "-" {
		f, err := env.Open(path)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	if err := r.Read(p.Reader(in)); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// writeReplay writes the report for people.
func writeReplay(w io.Writer, r *check.Report) error {
	var b strings.Builder
	changed := r.ChangedLines()
	switch {
	case r.Redecided == 0:
		b.WriteString("no line could be decided again\n")
	case changed == 0:
		fmt.Fprintf(&b, "no decision would change (%s decided again)\n", lineCount(r.Redecided))
	default:
		fmt.Fprintf(&b, "%s would be decided differently, of %s replayed\n", lineCount(changed), lineCount(r.Redecided))
	}
	writeGroups(&b, r.Changed)
	if len(r.RuleOnly) > 0 {
		b.WriteString("\nthe same action by another rule\n")
		writeGroups(&b, r.RuleOnly)
	}
	var approvals []check.Reason
	for _, a := range r.Approvals {
		approvals = append(approvals, check.Reason{Reason: "rule " + strconv.Quote(a.Rule), Lines: a.Lines})
	}
	writeReasons(&b, "pass only after the approval of a person", approvals)
	writeReasons(&b, "undecidable", r.Undecided)
	writeReasons(&b, "not decided by rules", r.Skipped)
	_, err := io.WriteString(w, b.String())
	return err
}

// maxShown is how many rows of a group are shown; -o json has all.
const maxShown = 20

func writeGroups(b *strings.Builder, groups []check.Group) {
	for _, g := range groups {
		fmt.Fprintf(b, "\n%s -> %s: %s\n", command.Clean(outcome(g.From)), command.Clean(outcome(g.To)), lineCount(g.Lines))
		for i, row := range g.Rows {
			if i == maxShown {
				fmt.Fprintf(b, "  and %d more, which -o json lists\n", len(g.Rows)-i)
				break
			}
			what := row.Method
			switch {
			case row.Tool != "":
				what = row.Tool
			case what == "":
				what = "answers"
			}
			if row.Direction != "" {
				what += " (" + row.Direction + ")"
			}
			least := ""
			if row.AtLeast {
				least = "at least "
			}
			fmt.Fprintf(b, "  %-32s %s, %s%s\n", command.Clean(what), lineCount(row.Lines), least, callerCount(row.Principals))
			for _, e := range row.Examples[:min(1, len(row.Examples))] {
				fmt.Fprintf(b, "  %-32s as %s %s %s\n", "", command.Stamp(e.Time), command.Clean(e.RequestID), command.Clean(strings.TrimSpace(e.PrincipalKind+" "+e.Principal)))
			}
		}
		if g.Rest > 0 {
			fmt.Fprintf(b, "  and %s of further tools\n", lineCount(g.Rest))
		}
	}
}

func writeReasons(b *strings.Builder, title string, list []check.Reason) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, r := range list {
		fmt.Fprintf(b, "  %8d  %s\n", r.Lines, command.Clean(r.Reason))
	}
}

func outcome(d check.Decided) string {
	if d.Rule == "" {
		return d.Action + " by default"
	}
	return d.Action + " by " + d.Rule
}

func lineCount(n uint64) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

func callerCount(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
