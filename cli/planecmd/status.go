package planecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

// States of a check of 'svc status', the worst last.
const (
	checkOK    = "ok"
	checkWarn  = "warn"
	checkWrong = "wrong"
)

var checkStates = []string{checkOK, checkWarn, checkWrong}

// When svc status calls something wrong.
const (
	silentFor     = 24 * time.Hour // after it, silent gateways are one line
	licenseDays   = 7
	refusedWithin = 24 * time.Hour
	shownNames    = 5 // upstreams that one line names
)

// statusCheck is one line of 'svc status'.
type statusCheck struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// statusReport is the output of 'svc status -o json'.
type statusReport struct {
	OK      bool          `json:"ok"`
	Checks  []statusCheck `json:"checks"`
	NotSeen []string      `json:"notSeen"` // what the key may not see
}

// NewStatusCmd returns the command 'svc status'.
func NewStatusCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	f := command.FormatTable
	cmd := &cobra.Command{
		Use: "status", Short: "Show on one page what is wrong",
		Long: `Show what is wrong at the control plane and at its gateways, on one page.

Wrong are: a store that cannot be written, a gateway that is silent, has old policies or no writable audit
log, lost audit lines, an upstream that fails, a license with less than 7 days, a webhook that was
disabled, an SLA target that is breached, a budget that is exceeded, and a policy that no running gateway
enforces. Told are open approvals, budgets over a threshold, refused reports, gateways of which some
processes are silent and others run, and settings that wait for a restart. What the API key may not see
is named.

The exit code is 0 when nothing is wrong, 1 when something is, and 2 when the control plane cannot be
asked or refuses the key.`,
		Example: `  svc status
  svc status -o json | jq -r '.checks[] | select(.state == "wrong") | .text'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.Client()
			if err != nil {
				return err
			}
			report, err := readStatus(cmd.Context(), c, env.Now())
			if err != nil {
				return command.Usage(r.Explain(err), "")
			}
			if f == command.FormatTable {
				err = writeStatus(env, report)
			} else {
				err = command.WriteValue(env.Stdout, f, report)
			}
			if err == nil && !report.OK {
				err = command.ErrReported
			}
			return err
		},
	}
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	r.AddFlags(cmd)
	return cmd
}

// writeStatus writes a report for people: what is wrong first.
func writeStatus(env process.Env, report statusReport) error {
	w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range report.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", strings.ToUpper(c.State), c.Kind, command.Dash(visible(c.Name)), visible(c.Text))
		if c.Advice != "" {
			fmt.Fprintf(w, "\t\t\t→ %s\n", visible(c.Advice))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(report.NotSeen) > 0 {
		_, err := fmt.Fprintln(env.Stdout, "This key may not see:", strings.Join(report.NotSeen, ", "))
		return err
	}
	return nil
}

// statusReader collects the checks.
type statusReader struct {
	ctx    context.Context
	c      *client.Client
	now    time.Time
	report statusReport
}

func (s *statusReader) add(kind, name, state, text, advice string) {
	s.report.Checks = append(s.report.Checks, statusCheck{kind, name, state, text, advice})
}

// seen reports whether a list could be read. A key that may not see it is no error.
func (s *statusReader) seen(what string, err error) (bool, error) {
	var answer *client.Error
	if errors.As(err, &answer) && answer.Status == http.StatusForbidden {
		s.report.NotSeen = append(s.report.NotSeen, what)
		return false, nil
	}
	return err == nil, err
}

// readStatus asks for everything that the page shows.
func readStatus(ctx context.Context, c *client.Client, now time.Time) (statusReport, error) {
	s := &statusReader{ctx: ctx, c: c, now: now, report: statusReport{Checks: []statusCheck{}, NotSeen: []string{}}}
	for _, read := range []func() error{s.store, s.gateways, s.refused, s.policies, s.webhooks, s.slas, s.budgets, s.approvals} {
		if err := read(); err != nil {
			return statusReport{}, err
		}
	}
	slices.SortStableFunc(s.report.Checks, func(a, b statusCheck) int {
		return cmp.Compare(slices.Index(checkStates, b.State), slices.Index(checkStates, a.State))
	})
	s.report.OK = !slices.ContainsFunc(s.report.Checks, func(c statusCheck) bool { return c.State == checkWrong })
	return s.report, nil
}

func (s *statusReader) store() error {
	who, err := s.c.Whoami(s.ctx)
	if err != nil {
		return err
	}
	if err := s.c.Ready(s.ctx); err != nil {
		var answer *client.Error
		if !errors.As(err, &answer) {
			return err
		}
		s.add("store", "", checkWrong, "the store cannot be written", "see the log of svc serve, and /readyz?verbose of its metrics listener")
		return nil
	}
	s.add("store", "", checkOK, "can be written; tenant "+who.Tenant.Name, "")
	return nil
}

func (s *statusReader) gateways() error {
	list, err := s.c.ListGateways(s.ctx, false)
	if ok, err := s.seen("gateways", err); !ok {
		return err
	}
	fine, gone := 0, 0
	for _, g := range list.Data {
		silent, last := 0, time.Time{}
		for i := range g.Instances {
			in, was := &g.Instances[i], len(s.report.Checks)
			switch {
			case in.State == api.GatewaySilent && s.now.Sub(in.SeenAt) >= silentFor:
				gone++
				continue
			case in.State == api.GatewaySilent: // what it said last may not be so any more
				silent++
				if in.SeenAt.After(last) {
					last = in.SeenAt
				}
				continue
			}
			s.instance(g.Name, in)
			if len(s.report.Checks) == was {
				fine++
			}
		}
		if silent > 0 {
			s.silent(&g, silent, last)
		}
	}
	if gone > 0 {
		s.add("gateway", "", checkWarn, fmt.Sprintf("%d instances have been silent for more than a day", gone), "svc gateways forget NAME removes those that are gone")
	}
	switch {
	case len(list.Data) == 0:
		s.add("gateway", "", checkOK, "none reports to this control plane", "")
	case fine > 0:
		s.add("gateway", "", checkOK, fmt.Sprintf("%d instances run, nothing is wrong with them", fine), "")
	}
	return nil
}

// silent tells of the silent processes of a gateway, of which the last was heard of at a time. While others of
// its name run, it may have been started again, so nothing is wrong yet.
func (s *statusReader) silent(g *api.Gateway, n int, last time.Time) {
	state, text := checkWrong, "silent for "+ageText(s.now.Sub(last))
	if g.State == api.GatewayRunning {
		state, text = checkWarn, fmt.Sprintf("%d of %d instances are silent, for %s", n, len(g.Instances), ageText(s.now.Sub(last)))
	}
	s.add("gateway", g.Name, state, text, "see whether it runs and reaches the control plane; what is gone: svc gateways forget "+shellWord(g.Name))
}

// shellWord quotes a name for a command that people copy to a shell: whoever has an ingest key chooses the
// names of gateways.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// instance says what is wrong with one process of a gateway.
func (s *statusReader) instance(name string, i *api.GatewayInstance) {
	add := func(state, text, advice string) { s.add("gateway", name, state, text, advice) }
	if i.Behind {
		add(checkWrong, "does not have the newest policies for more than a minute", "see its log for control_plane.governance")
	}
	for _, bad := range [...]struct{ state, text string }{
		{"failing", "upstreams that fail: "}, {"open", "upstreams that are not contacted, because their breakers are open: "},
	} {
		var names []string
		for _, u := range i.Upstreams {
			if u.State == bad.state {
				names = append(names, u.Name)
			}
		}
		if more := len(names) - shownNames; more > 0 {
			names = append(names[:shownNames], fmt.Sprintf("and %d more", more))
		}
		if len(names) > 0 {
			add(checkWrong, bad.text+strings.Join(names, ", "), "svc gateway --check --probe says why")
		}
	}
	if !i.Audit.Writable {
		add(checkWrong, "the audit log cannot be written", "see its log, and the free space of its disk")
	}
	if i.Audit.Lost > 0 {
		add(checkWrong, command.Count(i.Audit.Lost)+" audit lines were lost since its start", "see its log, and the free space of its disk")
	}
	if i.License.State != "" && i.License.DaysLeft < licenseDays {
		add(checkWrong, fmt.Sprintf("the license is %s, %d days are left", i.License.State, i.License.DaysLeft), "put a new license in place and send SIGHUP")
	}
	if len(i.RestartPending) > 0 {
		add(checkWarn, "these settings wait for a restart: "+strings.Join(i.RestartPending, ", "), "restart the gateway")
	}
}

// refused tells of reports that came with another key than that of the name.
func (s *statusReader) refused() error {
	events, err := s.c.ListAuditEvents(s.ctx, client.EventQuery{Object: "refusedKey", Since: s.now.Add(-refusedWithin), Page: client.Page{Limit: api.MaxLimit}})
	if ok, err := s.seen("refused reports", err); !ok {
		return err
	}
	var names []string
	for _, e := range events.Data {
		if !slices.Contains(names, e.Object.Name) {
			names = append(names, e.Object.Name)
			s.add("gateway", e.Object.Name, checkWarn, "reports that another key signed were refused, last at "+command.Stamp(e.CreatedAt),
				"if the gateway has a new key: svc audit heads accept; else another machine uses its name")
		}
	}
	return nil
}

func (s *statusReader) policies() error {
	on, n := true, 0
	q := client.PolicyQuery{Enabled: &on, Page: client.Page{Limit: api.MaxLimit}}
	for range 1 + 10_000/api.MaxLimit {
		page, err := s.c.ListPolicies(s.ctx, q)
		if ok, err := s.seen("policies", err); !ok {
			return err
		}
		for _, p := range page.Data {
			n++
			if by := p.EnforcedBy; by != nil && by.Of > 0 && by.Gateways == 0 && s.now.Sub(p.UpdatedAt) > time.Minute {
				s.add("policy", p.Name, checkWrong, fmt.Sprintf("none of the %d running gateways enforces it", by.Of), "set governance.enabled in their configuration")
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	s.add("policy", "", checkOK, fmt.Sprintf("%d are enabled", n), "")
	return nil
}

func (s *statusReader) webhooks() error {
	q := client.Page{Limit: api.MaxLimit}
	for {
		page, err := s.c.ListWebhooks(s.ctx, q)
		if ok, err := s.seen("webhooks", err); !ok {
			return err
		}
		for _, h := range page.Data {
			switch {
			case !h.Enabled:
				s.add("webhook", h.Name, checkWrong, "is disabled", "svc webhooks update "+h.ID+" --enabled, when its receiver works again")
			case h.FailingSince != nil:
				s.add("webhook", h.Name, checkWarn, "fails since "+command.Stamp(*h.FailingSince), "svc webhooks deliveries "+h.ID)
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

func (s *statusReader) slas() error {
	list, err := s.c.ListSLAs(s.ctx)
	if ok, err := s.seen("SLA targets", err); !ok {
		return err
	}
	for _, t := range list.Data {
		if t.Status == "breached" {
			s.add("sla", t.Name, checkWrong, fmt.Sprintf("is breached: p99 %.0f ms, errors %.2f %%", t.CurrentP99Ms, t.CurrentErrorRate), "svc traces list --agent "+t.AgentID)
		}
	}
	return nil
}

func (s *statusReader) budgets() error {
	list, err := s.c.ListBudgets(s.ctx)
	if ok, err := s.seen("budgets", err); !ok {
		return err
	}
	for _, b := range list.Data {
		text := fmt.Sprintf("%.0f %% of $%.2f are spent, until %s", b.PercentUsed, b.LimitUSD, command.Stamp(b.ResetAt))
		switch {
		case b.CurrentUSD >= b.LimitUSD:
			s.add("budget", b.Name, checkWrong, text, "svc costs breakdown --group-by agent says by whom")
		case slices.ContainsFunc(b.WarnAt, func(percent int) bool { return b.PercentUsed >= float64(percent) }):
			s.add("budget", b.Name, checkWarn, text, "")
		}
	}
	return nil
}

func (s *statusReader) approvals() error {
	page, err := s.c.ListApprovals(s.ctx, client.ApprovalQuery{Status: api.ApprovalPending, Page: client.Page{Limit: 1}})
	if ok, err := s.seen("approvals", err); !ok {
		return err
	}
	if page.Total > 0 {
		s.add("approval", "", checkWarn, fmt.Sprintf("%d calls wait for a decision", page.Total), "svc approvals list --status pending")
	}
	return nil
}
