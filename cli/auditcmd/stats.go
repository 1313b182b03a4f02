package auditcmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/audit"
	"svc/gateway/refusal"
)

// overview are the fields of 'svc audit stats' without --by.
var overview = []audit.Field{
	audit.ByAction, audit.ByRule, audit.ByError, audit.ByTool, audit.ByUpstream, audit.ByPrincipal,
}

type auditStats struct {
	by           string
	top          int
	since, until time.Time
	format       command.Format
}

func newAuditStatsCmd(env process.Env) *cobra.Command {
	s := auditStats{top: 10, format: command.FormatTable}
	cmd := &cobra.Command{
		Use:   "stats FILE...",
		Short: "Summarize audit files: decisions, rules, tools, callers, latencies",
		Long: `Count the requests in audit files. One FILE means the current file of a gateway
and its rotated files; several FILEs are read as named. Nothing is verified; use
'svc audit verify' for that.

When many requests are refused before their caller is identified, one summary line
a second replaces their lines. They count as requests and as denied, by action,
error and principal (their address), and have no latency.

DENIED counts requests that were not forwarded. FAILED counts forwarded requests
that ended with an error. Latencies cover the whole request as the caller sees it;
quantiles are within 6 % of the exact value. Event streams that clients open to listen
(GET, subscriptions/listen) last as long as the client and are counted apart. At most
10,000 values of a field are distinguished.`,
		Example: `  svc audit stats /var/log/svc/audit.jsonl
  svc audit stats /var/log/svc/audit.jsonl --since 24h --by tool --top 20
  svc audit stats audit-*.jsonl audit.jsonl -o json`,
		Args: wantFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd.Context(), env, args)
		},
	}
	flags := cmd.Flags()
	names := make([]string, 0, len(audit.Fields()))
	for _, f := range audit.Fields() {
		names = append(names, string(f))
	}
	command.EnumFlag(cmd, &s.by, "by", names, "group requests by this field only, with latencies")
	flags.IntVar(&s.top, "top", s.top, "how many groups to show")
	flags.Var(command.TimeValue{Value: &s.since, Now: env.Now}, "since", "start of the period: a time, a date, or how long ago (1h, 7d)")
	flags.Var(command.TimeValue{Value: &s.until, Now: env.Now}, "until", "end of the period: a time, a date, or how long ago")
	command.AddFormatFlag(cmd, &s.format, command.FormatTable, command.FormatJSON, command.FormatYAML)
	return cmd
}

func (s *auditStats) run(ctx context.Context, env process.Env, args []string) error {
	if s.top < 1 || s.top > 10_000 {
		return command.Usagef("", "--top must be from 1 to 10000, got %d", s.top)
	}
	files, err := Files(args)
	if err != nil {
		return command.Usage(err, "")
	}
	fields := overview
	if s.by != "" {
		fields = []audit.Field{audit.Field(s.by)}
	}
	sum := audit.NewSummary(refusal.ListenEnded, fields...)
	var r audit.Record
	unread := uint64(0)
	done, err := Scan(ctx, env, files, func(line []byte) error {
		switch {
		case audit.Decode(line, &r) != nil:
			unread++
		case !s.since.IsZero() && r.Time.Before(s.since), !s.until.IsZero() && r.Time.After(s.until):
		default:
			sum.Add(&r)
		}
		return nil
	})
	if err != nil {
		return command.Usage(err, "")
	}
	if unread += done.Skipped; unread > 0 {
		if sum.Lines == 0 {
			return command.Usagef("name the file that audit.path of the gateway names", "none of %d lines is a line of an audit file", unread)
		}
		fmt.Fprintf(env.Stderr, "svc: %d lines are not lines of an audit file and are not counted\n", unread)
	}
	return s.write(env.Stdout, sum, fields)
}

// statsGroup is one group of the output of 'svc audit stats -o json'.
type statsGroup struct {
	Value    string  `json:"value,omitempty"`
	Requests uint64  `json:"requests"`
	Denied   uint64  `json:"denied"`
	Failed   uint64  `json:"failed"`
	BytesIn  int64   `json:"bytesIn"`
	BytesOut int64   `json:"bytesOut"`
	P50      float64 `json:"p50Ms"`
	P95      float64 `json:"p95Ms"`
	P99      float64 `json:"p99Ms"`
	Max      float64 `json:"maxMs"`
}

type statsField struct {
	Field  string       `json:"field"`
	Groups []statsGroup `json:"groups"`
	Rest   uint64       `json:"rest"`
}

type statsOutput struct {
	From    *time.Time `json:"from"`
	To      *time.Time `json:"to"`
	Lines   uint64     `json:"lines"`
	Streams uint64     `json:"streams"`
	Frames  int64      `json:"frames"`
	Starts  uint64     `json:"starts"`
	Lost    uint64     `json:"lost"`
	Counted uint64     `json:"counted"`
	All     statsGroup `json:"all"`
	// Listening are streams that clients opened to listen; they are no part of All.
	Listening statsGroup   `json:"listening"`
	Fields    []statsField `json:"fields"`
}

func statsOf(g *audit.Group) statsGroup {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return statsGroup{g.Value, g.Requests, g.Denied, g.Failed, g.BytesIn, g.BytesOut,
		ms(g.Duration.Quantile(0.5)), ms(g.Duration.Quantile(0.95)), ms(g.Duration.Quantile(0.99)), ms(g.Duration.Max())}
}

func (s *auditStats) write(w io.Writer, sum *audit.Summary, fields []audit.Field) error {
	if s.format != command.FormatTable {
		out := statsOutput{Lines: sum.Lines, Streams: sum.Streams, Frames: sum.Frames, Starts: sum.Starts, Lost: sum.Lost, Counted: sum.Counted,
			All: statsOf(&sum.All), Listening: statsOf(&sum.Listening), Fields: []statsField{}}
		if !sum.First.IsZero() {
			out.From, out.To = &sum.First, &sum.Last
		}
		for _, field := range fields {
			top, rest := sum.Top(field, s.top)
			one := statsField{Field: string(field), Groups: []statsGroup{}, Rest: rest}
			for _, g := range top {
				one.Groups = append(one.Groups, statsOf(g))
			}
			out.Fields = append(out.Fields, one)
		}
		return command.WriteValue(w, s.format, out)
	}
	if s.by == "" {
		return s.writeOverview(w, sum, fields)
	}
	top, rest := sum.Top(fields[0], s.top)
	rows := make([][]string, 0, len(top)+2)
	for _, g := range append(top, withName(&sum.All, "(all)")) {
		rows = append(rows, statsRow(g))
	}
	if err := command.WriteTable(w, []string{strings.ToUpper(s.by), "REQUESTS", "DENIED", "FAILED", "P50", "P95", "P99", "MAX"}, rows); err != nil {
		return err
	}
	return writeRest(w, rest)
}

func withName(g *audit.Group, name string) *audit.Group {
	named := *g
	named.Value = name
	return &named
}

func statsRow(g *audit.Group) []string {
	u := func(n uint64) string { return command.Count(int64(n)) }
	q := func(q float64) string { return latency(g.Duration.Quantile(q)) }
	return []string{g.Value, u(g.Requests), u(g.Denied), u(g.Failed), q(0.5), q(0.95), q(0.99), latency(g.Duration.Max())}
}

// latency writes a duration with three digits at most.
func latency(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func writeRest(w io.Writer, rest uint64) error {
	if rest == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "and %d requests with other values: see --top\n", rest)
	return err
}

func (s *auditStats) writeOverview(w io.Writer, sum *audit.Summary, fields []audit.Field) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	all := &sum.All
	line("from", "%s", command.Stamp(sum.First))
	line("to", "%s", command.Stamp(sum.Last))
	line("requests", "%d, %d denied, %d failed", all.Requests, all.Denied, all.Failed)
	if sum.Counted > 0 {
		line("counted", "%d of them were refused unidentified and have no line of their own", sum.Counted)
	}
	line("latency", "p50 %s, p95 %s, p99 %s, max %s", latency(all.Duration.Quantile(0.5)), latency(all.Duration.Quantile(0.95)),
		latency(all.Duration.Quantile(0.99)), latency(all.Duration.Max()))
	line("bytes", "%d in, %d out", all.BytesIn, all.BytesOut)
	line("streams", "%d, with %d frames", sum.Streams, sum.Frames)
	if l := &sum.Listening; l.Requests > 0 {
		line("listening", "%d streams of clients have ended (not counted as requests), %d failed; open p50 %s, max %s",
			l.Requests, l.Failed, latency(l.Duration.Quantile(0.5)), latency(l.Duration.Max()))
	}
	line("starts", "%d", sum.Starts)
	if sum.Lost > 0 {
		line("lost", "%d lines could not be written", sum.Lost)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for _, field := range fields {
		top, rest := sum.Top(field, s.top)
		if len(top) == 0 {
			continue
		}
		rows := make([][]string, len(top))
		for i, g := range top {
			rows[i] = statsRow(g)[:4]
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := command.WriteTable(w, []string{strings.ToUpper(string(field)), "REQUESTS", "DENIED", "FAILED"}, rows); err != nil {
			return err
		}
		if err := writeRest(w, rest); err != nil {
			return err
		}
	}
	return nil
}
