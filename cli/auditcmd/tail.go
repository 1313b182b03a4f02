package auditcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/audit"
	"svc/gateway/base/retry"
)

// tailPoll is the interval in which a followed file is read.
const tailPoll = 200 * time.Millisecond

type auditTail struct {
	lines  int
	follow bool
	format command.Format
	filter auditFilter
}

func newAuditTailCmd(env process.Env) *cobra.Command {
	t := auditTail{lines: 10, format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "tail FILE",
		Short: "Show the last lines of an audit file, and follow it",
		Long: `Show the last lines of an audit file and its rotated files. With -f also show the
lines that are added, across rotations. With a filter the last matching lines of
the whole audit log are shown.

-o json prints the lines unchanged.`,
		Example: `  svc audit tail /var/log/svc/audit.jsonl
  svc audit tail -f /var/log/svc/audit.jsonl --action deny
  svc audit tail /var/log/svc/audit.jsonl --status failed --upstream billing --since 1h
  svc audit tail -n 100 -o json audit.jsonl | jq .duration_ms`,
		Args: command.WantArgs("a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.run(cmd.Context(), env, args[0])
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&t.lines, "lines", "n", t.lines, "how many lines to show at the start")
	flags.BoolVarP(&t.follow, "follow", "f", false, "show new lines as they are written")
	t.filter.addFlags(cmd, env)
	command.AddFormatFlag(cmd, &t.format, command.FormatText, command.FormatJSON)
	return cmd
}

func (t *auditTail) run(ctx context.Context, env process.Env, path string) error {
	if t.lines < 0 || t.lines > 100_000 {
		return command.Usagef("", "--lines must be from 0 to 100000, got %d", t.lines)
	}
	from, err := audit.Before(path, t.lines)
	if err != nil {
		return command.Usage(err, "name the file that audit.path of the gateway names")
	}
	if t.filter.narrows() {
		from = audit.Position{} // a match may be anywhere in the file
	}
	reader := audit.NewReader(path, from)
	defer reader.Close()
	// Matches are buffered until the end of the audit log is reached, because only
	// the last ones are shown.
	recent := make([]string, 0, min(t.lines, 1024))
	caughtUp := false
	show := func(line string) error {
		if caughtUp {
			_, err := io.WriteString(env.Stdout, line)
			return err
		}
		if recent = append(recent, line); len(recent) > 2*t.lines+64 {
			recent = append(recent[:0], recent[len(recent)-t.lines:]...)
		}
		return nil
	}
	for {
		if err := t.read(ctx, reader, show); err != nil {
			return err
		}
		if !caughtUp {
			caughtUp = true
			for _, line := range recent[max(0, len(recent)-t.lines):] {
				if err := show(line); err != nil {
					return err
				}
			}
			recent = nil
			if n := reader.Skipped(); n > 0 {
				fmt.Fprintf(env.Stderr, "svc: %d lines are not lines of an audit file and are left out\n", n)
			}
		}
		if !t.follow || !retry.Wait(ctx, tailPoll) {
			return nil
		}
	}
}

// read shows the new lines up to the end of the audit log.
func (t *auditTail) read(ctx context.Context, reader *audit.Reader, show func(string) error) error {
	var r audit.Record
	for ctx.Err() == nil {
		line, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return command.Usage(err, "")
		case audit.Decode(line.Bytes, &r) != nil || !t.filter.match(&r):
			continue
		}
		text := string(command.EscapeInvisible(line.Bytes)) + "\n"
		if t.format != command.FormatJSON {
			text = tailLine(&r)
		}
		if err := show(text); err != nil {
			return err
		}
	}
	return nil
}

// tailSummary writes a line for requests that are only counted.
func tailSummary(s *audit.Refused) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %d requests without an identified caller", audit.KindSummary, s.Requests())
	for i := range s.Counts {
		fmt.Fprintf(&b, " %s=%d", command.Clean(s.Counts[i].ErrorKind), s.Counts[i].Requests)
	}
	for i, a := range s.Addresses {
		if i == tailAddresses {
			fmt.Fprintf(&b, " …")
			break
		}
		fmt.Fprintf(&b, " %s=%d", command.Clean(a.Address), a.Requests)
	}
	b.WriteByte('\n')
	return b.String()
}

// tailAddresses is the number of addresses with the most requests in such a line.
const tailAddresses = 3

// tailLine writes a record on one line, for people.
func tailLine(r *audit.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", r.Time.UTC().Format("2006-01-02T15:04:05.000Z"))
	if r.Kind == audit.KindCheckpoint {
		event := ""
		if r.Checkpoint != nil {
			event = string(r.Checkpoint.Event)
		}
		fmt.Fprintf(&b, "%-18s %s #%d\n", "checkpoint", command.Clean(event), r.Seq)
		return b.String()
	}
	if r.Kind == audit.KindSummary {
		b.WriteString(tailSummary(r.Refused))
		return b.String()
	}
	action := r.Action
	if action == "" {
		action = "-"
	}
	fmt.Fprintf(&b, "%-18s %3d %8s ", command.Clean(action), r.Status, latency(r.Duration))
	who := r.Principal
	if who == "" {
		who = r.ClientIP
	}
	fmt.Fprintf(&b, "%s %s", command.Clean(who), command.Clean(r.Method))
	add := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s%s", name, command.Clean(value))
		}
	}
	add("", r.Tool)
	if r.Kind != audit.KindRequest {
		add("", string(r.Kind))
	}
	add("→ ", r.Upstream)
	add("rule=", r.RuleID)
	add("error=", r.ErrorKind)
	for _, p := range r.PoliciesFired {
		add("policy=", cmp.Or(p.Name, p.ID)+":"+p.Action)
	}
	if r.GuardrailName != "" {
		add("guardrail=", r.GuardrailName+":"+r.GuardrailVerdict)
	}
	add("trace=", r.RequestID)
	b.WriteByte('\n')
	return b.String()
}
