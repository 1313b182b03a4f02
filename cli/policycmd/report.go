package policycmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/auditcmd"
	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/gateway/audit"
	"svc/server/client"
)

// maxTried bounds the rows of a report; further findings are counted together.
const maxTried = 10_000

// reportPage is the number of traces per request to the control plane.
const reportPage = 500

type policyReportOptions struct {
	since  time.Time
	traces int
	format command.Format
}

func newPolicyReportCmd(env process.Env) *cobra.Command {
	o := policyReportOptions{format: command.FormatTable}
	r := &rest.Connection{Env: env}
	cmd := &cobra.Command{
		Use:   "report [FILE...]",
		Short: "Show requests that observing rules and warning policies would have blocked or changed",
		Long: `Show the requests that rules in mode observe and policies with the action warn would
have denied or changed: by rule or policy, with callers and counts.

With FILEs the command reads audit files; one FILE means the current file of a
gateway and its rotated files. Without FILEs it reads the newest traces of the
control plane, which have the results of policies but not of rules.

ALLOWED NOW counts requests that passed unchanged; the others were blocked for
another reason.`,
		Example: `  svc policy report /var/log/svc/audit.jsonl --since 24h
  svc policy report -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t := newTried()
			if len(args) > 0 {
				if err := t.readFiles(cmd.Context(), env, args, o.since); err != nil {
					return err
				}
			} else if err := t.readTraces(cmd.Context(), r, o.since, o.traces); err != nil {
				return err
			}
			return t.write(env, o.format)
		},
	}
	f := cmd.Flags()
	f.Var(command.TimeValue{Value: &o.since, Now: env.Now}, "since", "start of the period: a time, a date, or how long ago (1h, 7d)")
	f.IntVar(&o.traces, "traces", 5000, "without a FILE: how many of the newest traces to read")
	command.AddFormatFlag(cmd, &o.format, command.FormatTable, command.FormatJSON)
	r.AddFlags(cmd)
	return cmd
}

// triedRow is what one observing rule or policy would have done to one agent's
// requests for one tool or method.
type triedRow struct {
	Kind  string `json:"kind"` // rule or policy
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Would string `json:"would"` // the rule's action, approval for an allow rule with it; warn for a policy
	Agent string `json:"agent"`
	// Asked is the tool of a call, or the method.
	Asked string    `json:"asked"`
	Count int       `json:"count"`
	New   int       `json:"new"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// tried counts the results of observing rules and of policies that warn.
type tried struct {
	Requests int         `json:"requests"`
	Denied   int         `json:"wouldDeny"` // requests that passed and that an observing rule would have denied
	Asked    int         `json:"wouldAsk"`  // requests that passed and for which an observing rule would have required approval
	Warned   int         `json:"warned"`    // requests on which a policy warned
	Left     int         `json:"leftOut"`   // findings beyond the bound on rows
	Rows     []*triedRow `json:"rows"`

	byKey map[[5]string]*triedRow
}

func newTried() *tried { return &tried{byKey: map[[5]string]*triedRow{}} }

// wouldAsk is what an observing allow rule with approval would have done.
const wouldAsk = "approval"

// triedRequest is the part of a request that a report uses.
type triedRequest struct {
	at            time.Time
	agent, asked  string
	passed        bool
	rules, policy []audit.PolicyFired // Action is what they would have done
}

func (t *tried) add(q *triedRequest) {
	t.Requests++
	denies, asks := false, false
	for _, p := range q.rules {
		asks = asks || p.Action == wouldAsk
		denies = denies || p.Action == "deny" || p.Action == "rate_limit_blocked"
		t.count("rule", &p, q)
	}
	for _, p := range q.policy {
		t.count("policy", &p, q)
	}
	if denies && q.passed {
		t.Denied++
	}
	if asks && q.passed {
		t.Asked++
	}
	if len(q.policy) > 0 {
		t.Warned++
	}
}

func (t *tried) count(kind string, p *audit.PolicyFired, q *triedRequest) {
	key := [5]string{kind, p.ID, p.Action, q.agent, q.asked}
	row := t.byKey[key]
	if row == nil {
		if len(t.Rows) >= maxTried {
			t.Left++
			return
		}
		row = &triedRow{Kind: kind, ID: p.ID, Name: p.Name, Would: p.Action, Agent: q.agent, Asked: q.asked, First: q.at, Last: q.at}
		t.byKey[key] = row
		t.Rows = append(t.Rows, row)
	}
	row.Count++
	if q.passed {
		row.New++
	}
	if q.at.Before(row.First) {
		row.First = q.at
	}
	if q.at.After(row.Last) {
		row.Last = q.at
	}
}

// readFiles counts the lines of audit files.
func (t *tried) readFiles(ctx context.Context, env process.Env, args []string, since time.Time) error {
	files, err := auditcmd.Files(args)
	if err != nil {
		return command.Usage(err, "")
	}
	var rec audit.Record
	_, err = auditcmd.Scan(ctx, env, files, func(line []byte) error {
		if audit.Decode(line, &rec) != nil || rec.Time.Before(since) {
			return nil
		}
		if rec.Kind == audit.KindSummary {
			t.Requests += int(rec.Refused.Requests()) // no rule was evaluated for them
			return nil
		}
		// The result for the response is in the line of its request too.
		if rec.Kind != audit.KindRequest && (rec.Kind != audit.KindFrame || rec.RPC == audit.RPCResponse) {
			return nil
		}
		q := triedRequest{at: rec.Time, agent: cmp.Or(rec.Agent, rec.Principal), asked: cmp.Or(rec.Tool, rec.Method, rec.RPC),
			passed: rec.Action != "deny" && rec.Action != "rate_limit_blocked"}
		for _, o := range rec.Observed {
			would := o.Action
			if o.Approval != "" {
				would = wouldAsk
			}
			q.rules = append(q.rules, audit.PolicyFired{ID: o.RuleID, Action: would})
		}
		if rec.Kind == audit.KindRequest {
			q.policy = warnings(rec.PoliciesFired)
		} else if len(q.rules) == 0 {
			return nil // a frame is not a request
		}
		t.add(&q)
		return nil
	})
	if err != nil {
		return command.Usage(err, "")
	}
	return nil
}

// warnings returns the policies that warned.
func warnings(fired []audit.PolicyFired) []audit.PolicyFired {
	return slices.DeleteFunc(slices.Clone(fired), func(p audit.PolicyFired) bool { return p.Action != "warn" })
}

// readTraces counts the newest traces of the control plane.
func (t *tried) readTraces(ctx context.Context, r *rest.Connection, since time.Time, most int) error {
	if most < 1 {
		return command.Usagef("", "--traces must be at least 1")
	}
	c, err := r.Client()
	if err != nil {
		return err
	}
	// Without cursors, traces that arrive meanwhile would shift the pages.
	filter := client.TraceFilter{Start: since, End: r.Env.Now()}
	next := client.Page{}
	for read := 0; read < most; {
		next.Limit = min(reportPage, most-read)
		page, err := c.ListTraces(ctx, client.TraceQuery{Page: next, TraceFilter: filter})
		if err != nil {
			return r.Explain(err)
		}
		for i := range page.Data {
			trace := &page.Data[i]
			q := triedRequest{at: trace.CreatedAt, agent: trace.AgentName, asked: cmp.Or(trace.ToolName, "-"), passed: !trace.Blocked}
			for _, p := range trace.PoliciesFired {
				if p.Action == "warn" {
					q.policy = append(q.policy, audit.PolicyFired(p))
				}
			}
			t.add(&q)
		}
		read += len(page.Data)
		switch {
		case page.Next != "":
			next = client.Page{After: page.Next}
		case len(page.Data) == 0 || next.After != "" || read >= page.Total:
			return nil
		default:
			next.Offset = read
		}
	}
	return nil
}

func (t *tried) write(env process.Env, f command.Format) error {
	slices.SortFunc(t.Rows, func(a, b *triedRow) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), strings.Compare(a.ID, b.ID), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Asked, b.Asked))
	})
	if f == command.FormatJSON {
		if t.Rows == nil {
			t.Rows = []*triedRow{}
		}
		return command.WriteValue(env.Stdout, f, t)
	}
	rows := make([][]string, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = []string{r.Kind, cmp.Or(r.Name, r.ID), r.Would, r.Agent, r.Asked, command.Count(int64(r.Count)), command.Count(int64(r.New)), r.Last.UTC().Format(time.DateTime)}
	}
	if err := command.ShowTable(env, []string{"KIND", "RULE OR POLICY", "ACTION", "AGENT", "TOOL", "COUNT", "ALLOWED NOW", "LAST (UTC)"}, rows); err != nil {
		return err
	}
	note := fmt.Sprintf("%d requests; %d that passed would have been denied by rules, %d would have needed approval, policies warned of %d", t.Requests, t.Denied, t.Asked, t.Warned)
	if t.Left > 0 {
		note += fmt.Sprintf("; %d findings are in none of the rows", t.Left)
	}
	_, err := fmt.Fprintln(env.Stderr, note)
	return err
}
