package verdict

import (
	"slices"
	"time"

	"svc/gateway/audit"
	"svc/gateway/govern"
	"svc/gateway/guardrail"
	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// MaxFired bounds the policies that a line names.
const MaxFired = 32

// Callouts counts the guardrails that are asked: a request can ask several, about
// frames too.
type Callouts interface {
	Asked(guardrail, verdict string, took time.Duration)
}

// Count counts the guardrail that was asked, if there was one, where somebody counts.
func (r *Result) Count(c Callouts) {
	if c != nil && r.Guardrail != "" {
		c.Asked(r.Guardrail, string(r.Said.Verdict), r.Said.Latency)
	}
}

// Note adds what was decided about a message to a record: an empty one of a frame, or
// the one of a request, in which its own decision is first and that about its answer
// second. decided is the action of the rule that the request matched.
func (r *Result) Note(rec *audit.Record, decided policy.Action) {
	r.noteRule(rec, decided)
	if r.Kind != "" {
		rec.ErrorKind = r.Kind
	}
	if r.Governed.Blocked {
		rec.RuleID = "" // it was no rule
	}
	for _, o := range r.Observed { // a rule for both ways has seen the request already
		if !slices.Contains(rec.Observed, o) {
			rec.Observed = append(rec.Observed, o)
		}
	}
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

// NoteAnswer adds what was decided about an answer or a frame, and what it says of
// itself.
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
// over the one that is in the record. Where both allow, the second rule is recorded if
// no rule decided first, or if the first only allows and the second was performed, as
// a rate_limit that admits.
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

// Note adds what policies found to a record: each policy and entity once, and the
// highest score. Of more policies than a line holds, those that block are in it.
func (g *Governed) Note(rec *audit.Record) {
	rec.InjectionScore = max(rec.InjectionScore, g.Score)
	for _, e := range g.Entities {
		if !slices.Contains(rec.PIIDetected, e) {
			rec.PIIDetected = append(rec.PIIDetected, e)
		}
	}
	for _, p := range g.Fired {
		if slices.ContainsFunc(rec.PoliciesFired, func(f audit.PolicyFired) bool { return f.ID == p.ID }) {
			continue
		}
		fired := audit.PolicyFired{ID: p.ID, Name: p.Name, Action: p.Action.String()}
		if len(rec.PoliciesFired) < MaxFired {
			rec.PoliciesFired = append(rec.PoliciesFired, fired)
		} else if p.Action == govern.Block {
			rec.PoliciesFired[MaxFired-1] = fired
		}
	}
}
