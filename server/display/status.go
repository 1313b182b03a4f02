package display

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// States of a check, the worst last.
const (
	CheckOK    = "ok"
	CheckWarn  = "warn"
	CheckWrong = "wrong"
)

var checkStates = []string{CheckOK, CheckWarn, CheckWrong}

// When a check calls something wrong.
const (
	silentFor     = 24 * time.Hour // after it, silent gateways are one line
	licenseDays   = 7
	refusedWithin = 24 * time.Hour
	shownNames    = 5 // upstreams that one line names
)

// Check is one line of svc status: what is wrong, or not, and what to do.
type Check struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// Word returns the state of a check.
func (c Check) Word() Word {
	return Word{strings.ToUpper(c.State), map[string]Level{CheckOK: Good, CheckWarn: Warn, CheckWrong: Bad}[c.State]}
}

// Checks are collected by kind; Sort puts the worst first.
type Checks []Check

func (c *Checks) add(kind, name, state, text, advice string) {
	*c = append(*c, Check{kind, name, state, text, advice})
}

// Sort puts the worst first.
func (c Checks) Sort() {
	slices.SortStableFunc(c, func(a, b Check) int {
		return cmp.Compare(slices.Index(checkStates, b.State), slices.Index(checkStates, a.State))
	})
}

// Status is what is wrong at a control plane and at its gateways, the worst first.
type Status struct {
	OK      bool     `json:"ok"`
	Checks  Checks   `json:"checks"`
	NotSeen []string `json:"notSeen"` // what the key may not see
}

// ReadStatus asks a control plane for everything that is checked. Ages are by its clock, or by now if it names no time.
func ReadStatus(ctx context.Context, c *client.Client, now time.Time) (Status, error) {
	s := &statusReader{ctx: ctx, c: c, now: now, Status: Status{Checks: Checks{}, NotSeen: []string{}}}
	for _, read := range []func() error{s.store, s.gateways, s.refused, s.policies, s.webhooks, s.slas, s.budgets, s.approvals} {
		if err := read(); err != nil {
			return Status{}, err
		}
	}
	s.Checks.Sort()
	s.OK = !slices.ContainsFunc(s.Checks, func(c Check) bool { return c.State == CheckWrong })
	return s.Status, nil
}

// statusReader collects the checks.
type statusReader struct {
	ctx context.Context
	c   *client.Client
	now time.Time
	Status
}

// seen reports whether a list could be read. A key that may not see it is no error.
func (s *statusReader) seen(what string, err error) (bool, error) {
	var answer *client.Error
	if errors.As(err, &answer) && answer.Status == http.StatusForbidden {
		s.NotSeen = append(s.NotSeen, what)
		return false, nil
	}
	return err == nil, err
}

func (s *statusReader) store() error {
	who, at, err := s.c.WhoamiAt(s.ctx)
	if err != nil {
		return err
	}
	if !at.IsZero() { // the times of its lists are by that clock
		s.now = at
	}
	if err := s.c.Ready(s.ctx); err != nil {
		var answer *client.Error
		if !errors.As(err, &answer) {
			return err
		}
		s.Checks.add("store", "", CheckWrong, "the store cannot be written", "see the log of svc serve, and /readyz?verbose of its metrics listener")
		return nil
	}
	s.Checks.add("store", "", CheckOK, "can be written; tenant "+who.Tenant.Name, "")
	return nil
}

func (s *statusReader) gateways() error {
	list, err := s.c.ListGateways(s.ctx, false)
	if ok, err := s.seen("gateways", err); !ok {
		return err
	}
	s.Checks.Gateways(list.Data, s.now)
	return nil
}

// Gateways checks gateways and their instances.
func (c *Checks) Gateways(list []api.Gateway, now time.Time) {
	fine, gone := 0, 0
	for _, g := range list {
		silent, last := 0, time.Time{}
		for i := range g.Instances {
			in, was := &g.Instances[i], len(*c)
			switch {
			case in.State == api.GatewayStopped: // it has said so
				continue
			case in.State == api.GatewaySilent && now.Sub(in.SeenAt) >= silentFor:
				gone++
				continue
			case in.State == api.GatewaySilent: // what it said last may not be so any more
				silent++
				if in.SeenAt.After(last) {
					last = in.SeenAt
				}
				continue
			}
			c.instance(g.Name, in)
			if len(*c) == was {
				fine++
			}
		}
		if silent > 0 {
			c.silent(&g, silent, now.Sub(last))
		}
	}
	if gone > 0 {
		c.add("gateway", "", CheckWarn, fmt.Sprintf("%d instances have been silent for more than a day", gone), "svc gateways forget NAME removes those that are gone")
	}
	switch {
	case len(list) == 0:
		c.add("gateway", "", CheckOK, "none reports to this control plane", "")
	case fine > 0:
		c.add("gateway", "", CheckOK, fmt.Sprintf("%d instances run, nothing is wrong with them", fine), "")
	}
}

// silent tells of the silent processes of a gateway, of which the last was heard of some time ago. While others of
// its name run, it may have been started again, so nothing is wrong yet.
func (c *Checks) silent(g *api.Gateway, n int, since time.Duration) {
	state, text := CheckWrong, "silent for "+age(since)
	if g.State == api.GatewayRunning {
		state, text = CheckWarn, fmt.Sprintf("%d of %d instances are silent, for %s", n, len(g.Instances), age(since))
	}
	c.add("gateway", g.Name, state, text, "see whether it runs and reaches the control plane; what is gone: svc gateways forget "+shellWord(g.Name))
}

// age formats an age in seconds, or in minutes from one minute on.
func age(d time.Duration) string {
	if d < time.Minute {
		return max(d, 0).Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
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
func (c *Checks) instance(name string, i *api.GatewayInstance) {
	add := func(state, text, advice string) { c.add("gateway", name, state, text, advice) }
	if i.Behind {
		add(CheckWrong, "does not have the newest policies for more than a minute", "see its log for control_plane.governance")
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
			add(CheckWrong, bad.text+strings.Join(names, ", "), "svc gateway --check --probe says why")
		}
	}
	if !i.Audit.Writable {
		add(CheckWrong, "the audit log cannot be written", "see its log, and the free space of its disk")
	}
	if i.Audit.Lost > 0 {
		add(CheckWrong, fmt.Sprintf("%d audit lines were lost since its start", i.Audit.Lost), "see its log, and the free space of its disk")
	}
	if i.License.State != "" && i.License.DaysLeft < licenseDays {
		add(CheckWrong, fmt.Sprintf("the license is %s, %d days are left", i.License.State, i.License.DaysLeft), "put a new license in place and send SIGHUP")
	}
	if len(i.RestartPending) > 0 {
		add(CheckWarn, "these settings wait for a restart: "+strings.Join(i.RestartPending, ", "), "restart the gateway")
	}
}

// RefusedReports are the events about reports of gateways that came with another key than that of their name.
func RefusedReports(now time.Time) client.EventQuery {
	return client.EventQuery{Object: "refusedKey", Since: now.Add(-refusedWithin), Page: client.Page{Limit: api.MaxLimit}}
}

func (s *statusReader) refused() error {
	events, err := s.c.ListAuditEvents(s.ctx, RefusedReports(s.now))
	if ok, err := s.seen("refused reports", err); !ok {
		return err
	}
	s.Checks.Refused(events.Data)
	return nil
}

// Refused checks the events of RefusedReports.
func (c *Checks) Refused(events []api.AuditEvent) {
	names := map[string]bool{}
	for _, e := range events {
		if !names[e.Object.Name] {
			names[e.Object.Name] = true
			c.add("gateway", e.Object.Name, CheckWarn, "reports that another key signed were refused, last at "+stamp(e.CreatedAt),
				"if the gateway has a new key: svc audit heads accept; else another machine uses its name")
		}
	}
}

// stamp formats a time to the second, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

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
				s.Checks.add("policy", p.Name, CheckWrong, fmt.Sprintf("none of the %d running gateways enforces it", by.Of), "set governance.enabled in their configuration")
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	s.Checks.add("policy", "", CheckOK, fmt.Sprintf("%d are enabled", n), "")
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
				s.Checks.add("webhook", h.Name, CheckWrong, "is disabled", "svc webhooks update "+h.ID+" --enabled, when its receiver works again")
			case h.FailingSince != nil:
				s.Checks.add("webhook", h.Name, CheckWarn, "fails since "+stamp(*h.FailingSince), "svc webhooks deliveries "+h.ID)
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
			s.Checks.add("sla", t.Name, CheckWrong, fmt.Sprintf("is breached: p99 %.0f ms, errors %.2f %%", t.CurrentP99Ms, t.CurrentErrorRate), "svc traces list --agent "+t.AgentID)
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
		text := fmt.Sprintf("%.0f %% of $%.2f are spent, until %s", b.PercentUsed, b.LimitUSD, stamp(b.ResetAt))
		switch {
		case b.CurrentUSD >= b.LimitUSD:
			s.Checks.add("budget", b.Name, CheckWrong, text, "svc costs breakdown --group-by agent says by whom")
		case slices.ContainsFunc(b.WarnAt, func(percent int) bool { return b.PercentUsed >= float64(percent) }):
			s.Checks.add("budget", b.Name, CheckWarn, text, "")
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
		s.Checks.add("approval", "", CheckWarn, fmt.Sprintf("%d calls wait for a decision", page.Total), "svc approvals list --status pending")
	}
	return nil
}
