package policycmd

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"svc/cli/command"
	"svc/gateway/audit"
	"svc/gateway/refusal"
	"svc/server/display"
	"svc/store/api"
)

// decidedRequest is the data about a request in an audit line or a trace. It has no
// values of the message.
type decidedRequest struct {
	Request     string            `json:"requestId,omitempty"`
	ID          string            `json:"id,omitempty"`      // id of the trace at the control plane
	Trace       string            `json:"traceId,omitempty"` // W3C trace id; only in audit lines
	At          time.Time         `json:"createdAt"`
	Principal   string            `json:"principal,omitempty"`
	Kind        string            `json:"principalKind,omitempty"` // only in audit lines
	Client      api.TraceClient   `json:"client,omitzero"`
	Agent       string            `json:"agent,omitempty"`
	Environment string            `json:"environment,omitempty"`
	Session     string            `json:"session,omitempty"`
	Method      string            `json:"method,omitempty"` // only in audit lines
	Tool        string            `json:"tool,omitempty"`
	Upstream    string            `json:"upstream,omitempty"` // only in audit lines
	HTTPStatus  int               `json:"httpStatus,omitempty"`
	DurationMs  float64           `json:"durationMs"`
	Outcome     string            `json:"outcome"` // success, blocked or failed
	Rule        string            `json:"ruleId,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	ErrorKind   string            `json:"errorKind,omitempty"`
	Approval    api.TraceApproval `json:"approval,omitzero"`  // of a call that a person has to approve
	Labels      []string          `json:"labels,omitempty"`   // that the caller had
	Sets        []string          `json:"sets,omitempty"`     // that the answer set
	SetBy       []labelCall       `json:"labelsBy,omitempty"` // by which calls Labels were set
	Policies    []api.PolicyFired `json:"policiesFired,omitempty"`
	Guardrail   string            `json:"guardrail,omitempty"`        // only in audit lines
	Verdict     string            `json:"guardrailVerdict,omitempty"` // only in audit lines
	// By entity, only in audit lines: values of the answer that became tokens, values that were
	// put back into the request, tokens that could not be.
	Tokens   map[string]int `json:"tokens,omitempty"`
	Restored map[string]int `json:"restored,omitempty"`
	Refused  map[string]int `json:"tokensRefused,omitempty"`
	// Listens is set for an event stream that the client opened to listen; DurationMs has the time
	// that it was open. Open is set when only its opening was found, only in audit lines.
	Listens bool `json:"listens,omitempty"`
	Open    bool `json:"open,omitempty"`
}

// restored returns the entities of the values that were put back.
func (q *decidedRequest) restored() []string { return slices.Sorted(maps.Keys(q.Restored)) }

// byEntity returns counts of an audit line by their entity.
func byEntity(list []audit.EntityCount) map[string]int {
	m := make(map[string]int, len(list))
	for _, c := range list {
		m[c.Entity] += c.N
	}
	return m
}

// countsText writes counts for people, "" for none.
func countsText(m map[string]int) string {
	var parts []string
	for _, e := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[e], e))
	}
	return strings.Join(parts, ", ")
}

func ofTrace(t *api.Trace) *decidedRequest {
	q := &decidedRequest{Request: t.RequestID, ID: t.ID, At: t.CreatedAt, Principal: t.Principal, Client: t.Client, Agent: t.AgentName,
		Environment: t.Environment, Session: t.SessionID, Tool: t.ToolName, DurationMs: t.DurationMs,
		Rule: t.RuleID, Reason: t.Reason, ErrorKind: t.ErrorKind, Approval: t.Approval, Labels: t.Labels, Sets: t.Sets, Policies: t.PoliciesFired}
	d := display.DecisionOf(t)
	if q.Outcome, q.Listens = d.Outcome, d.Listens; q.Listens {
		q.DurationMs += t.Spans[len(t.Spans)-1].DurationMs
	}
	return q
}

// ofLine returns the request of an audit line.
func ofLine(r *audit.Record) *decidedRequest {
	q := &decidedRequest{Request: r.RequestID, Trace: r.TraceID, At: r.Time, Principal: r.Principal, Kind: r.PrincipalKind,
		Client: api.TraceClient{Name: r.ClientName, Version: r.ClientVersion},
		Agent:  r.Agent, Environment: r.Environment, Session: r.Session, Method: r.Method, Tool: r.Tool, Upstream: r.Upstream,
		HTTPStatus: r.Status, DurationMs: float64(r.Duration.Microseconds()) / 1000, Outcome: "success",
		Rule: r.RuleID, Reason: refusal.ReasonOf(r.Action, r.ErrorKind), ErrorKind: r.ErrorKind}
	q.Tokens, q.Restored, q.Refused = byEntity(r.Tokens), byEntity(r.Restored), byEntity(r.TokensRefused)
	q.Approval = api.TraceApproval{Status: r.Approval, ID: r.ApprovalID, By: r.ApprovedBy}
	q.Labels, q.Sets = r.Labels, r.Sets
	q.Guardrail, q.Verdict = r.GuardrailName, r.GuardrailVerdict
	for _, p := range r.PoliciesFired {
		q.Policies = append(q.Policies, api.PolicyFired(p))
	}
	q.Listens = audit.Listens(r)
	q.Open = q.Listens && r.Kind == audit.KindOpen
	switch {
	case audit.Blocked(r):
		q.Outcome = "blocked"
	case refusal.ListenEnded(r): // nobody waited for an answer
	case r.ErrorKind != "" || r.IsError || r.Status >= 400 || r.Action == audit.ActionDeny || r.Action == audit.ActionRateLimitBlocked:
		q.Outcome = "failed"
	}
	return q
}

// why is the output of svc why.
type why struct {
	*decidedRequest
	Decision string    `json:"decision"`
	Cause    string    `json:"cause"`
	Do       string    `json:"whatToDo"`
	Rules    *whyRules `json:"rules,omitempty"`
}

// explain describes the decision in words.
func explain(q *decidedRequest) *why {
	d := display.Decision{Outcome: q.Outcome, Rule: q.Rule, Reason: q.Reason, ErrorKind: q.ErrorKind, Approval: q.Approval, Policies: q.Policies,
		Listens: q.Listens, Open: q.Open, HTTPStatus: q.HTTPStatus, Guardrail: q.Guardrail, Verdict: q.Verdict}
	w := d.Why()
	return &why{decidedRequest: q, Decision: w.Decision, Cause: w.Cause, Do: w.Do}
}

func writeWhy(w io.Writer, y *why) error {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-13s %s\n", name+":", command.Clean(value))
		}
	}
	line("request", cmp.Or(y.Request, y.ID))
	line("time", fmt.Sprintf("%s, %s ms", command.Stamp(y.At), command.Number(y.DurationMs)))
	caller := y.Principal
	if y.Kind != "" && caller != "" {
		caller += " (" + y.Kind + ")"
	}
	line("caller", cmp.Or(caller, "not known"))
	line("client", y.Client.String())
	line("agent", y.Agent)
	line("environment", y.Environment)
	line("session", y.Session)
	line("method", y.Method)
	line("tool", y.Tool)
	line("upstream", y.Upstream)
	line("decision", y.Decision)
	if a := y.Approval; a.Status != "" {
		text := strings.TrimSpace(a.Status + " " + a.ID)
		if a.By != "" {
			text += ", granted by " + a.By
		}
		line("approval", text)
	}
	line("labels", strings.Join(y.Labels, ", "))
	for i := range y.SetBy {
		line("set by", y.SetBy[i].String())
	}
	line("sets", strings.Join(y.Sets, ", "))
	for _, p := range y.Policies {
		line("policy", strings.TrimSpace(fmt.Sprintf("%s %s: %s", p.Name, "("+p.ID+")", p.Action)))
	}
	if y.Guardrail != "" {
		line("guardrail", y.Guardrail+": "+y.Verdict)
	}
	line("tokens", countsText(y.Tokens))
	line("restored", countsText(y.Restored))
	line("tokens refused", countsText(y.Refused))
	line("error kind", y.ErrorKind)
	told := y.Reason
	if y.HTTPStatus >= 400 && told != "" {
		told = fmt.Sprintf("%d %s", y.HTTPStatus, told)
	}
	line("client told", told)
	line("cause", y.Cause)
	line("what to do", y.Do)
	if y.Rules != nil {
		y.Rules.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
