package verdict

import (
	"slices"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/guardrail"
	"svc/gateway/policy/plane"
	"svc/gateway/telemetry"
)

// MaxFired bounds the policies in an audit line.
const MaxFired = 32

// Count counts the guardrail that was called, if any, unless m is nil: a request can cause several
// calls, also for frames.
func (r *Result) Count(m *telemetry.Metrics) {
	if m != nil && r.Guardrail != "" {
		m.Asked(r.Guardrail, string(r.Said.Verdict), r.Said.Latency)
	}
}

// Note adds the decision about a message to a record: an empty record for a frame, or
// the record of a request, to which the decision about the request is added first and
// the one about its response second. decided is the action of the rule that the
// request matched.
func (r *Result) Note(rec *audit.Record, decided policy.Action) {
	r.noteRule(rec, decided)
	if r.Kind != "" {
		rec.ErrorKind = r.Kind
	}
	if r.Governed.Blocked {
		rec.RuleID = "" // no rule has decided
	}
	for _, o := range r.Observed { // a rule for both directions has observed the request already
		if !slices.Contains(rec.Observed, o) {
			rec.Observed = append(rec.Observed, o)
		}
	}
	rec.SkillChanged = rec.SkillChanged || r.SkillChanged
	if r.StripApplied {
		rec.StripApplied = true
		rec.Stripped += r.Stripped
	}
	if r.Guardrail != "" && (rec.GuardrailName == "" || r.Said.Verdict != guardrail.Pass) {
		rec.GuardrailName, rec.GuardrailVerdict, rec.GuardrailLatency = r.Guardrail, string(r.Said.Verdict), r.Said.Latency
	}
	rec.LeftOut = append(rec.LeftOut, r.LeftOut...)
	r.Governed.Note(rec)
}

// NoteAnswer adds the decision about a response or a frame, and members of the
// message.
func (r *Result) NoteAnswer(rec *audit.Record, decided policy.Action, m *mcp.Message) {
	r.Note(rec, decided)
	if m.Kind != mcp.Response {
		return
	}
	rec.IsError = m.IsError || m.ToolError
	rec.ResultType = m.ResultType
	if r.Task != "" {
		rec.TaskHandle = r.Task
	}
}

// noteRule adds the action and the rule. An action other than allow takes precedence
// over the one in the record. If both allow, the second rule is recorded if no rule
// decided first, or if the first only allows and the second was performed, like a
// rate_limit that admits.
func (r *Result) noteRule(rec *audit.Record, decided policy.Action) {
	if r.Action == "" || r.Rule == "" && r.Action == audit.ActionAllow {
		return
	}
	if r.Action != audit.ActionAllow {
		rec.Action = r.Action
	} else if rec.RuleID != "" && (rec.Action != audit.ActionAllow || decided != policy.Allow || !r.Performed) {
		return
	}
	if r.Rule != "" {
		rec.RuleID = r.Rule
	}
}

// Note adds the findings of policies to a record: each policy and entity once, and the
// highest score. If there are more policies than the limit, the blocking ones are
// included.
func (g *Governed) Note(rec *audit.Record) {
	rec.InjectionScore = max(rec.InjectionScore, g.Score)
	for _, e := range g.Entities {
		if !slices.Contains(rec.PIIDetected, e) {
			rec.PIIDetected = append(rec.PIIDetected, e)
		}
	}
	for _, c := range g.Tokens {
		rec.Tokens = addCount(rec.Tokens, c)
	}
	for _, p := range g.Fired {
		if slices.ContainsFunc(rec.PoliciesFired, func(f audit.PolicyFired) bool { return f.ID == p.ID }) {
			continue
		}
		fired := audit.PolicyFired{ID: p.ID, Name: p.Name, Action: p.Action.String()}
		if len(rec.PoliciesFired) < MaxFired {
			rec.PoliciesFired = append(rec.PoliciesFired, fired)
		} else if p.Action == plane.Block {
			rec.PoliciesFired[MaxFired-1] = fired
		}
	}
}

// addCount adds a count to those of an audit line.
func addCount(list []audit.EntityCount, c plane.Count) []audit.EntityCount {
	for i := range list {
		if list[i].Entity == c.Entity {
			list[i].N += c.N
			return list
		}
	}
	return append(list, audit.EntityCount(c))
}
