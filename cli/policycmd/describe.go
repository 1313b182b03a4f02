package policycmd

import (
	"fmt"
	"strings"

	"svc/cli/command"
	"svc/gateway/check"
	"svc/gateway/config"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
)

// explained is one decision in the output of svc policy explain and test.
type explained struct {
	Action   string          `json:"action"`
	Rule     string          `json:"rule,omitempty"`
	Approval string          `json:"approval,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Default  string          `json:"default,omitempty"`
	Upstream string          `json:"upstream,omitempty"`
	Route    string          `json:"route"`
	Observed []string        `json:"observed,omitempty"`
	Labels   []string        `json:"labels,omitempty"`
	Steps    []explainedStep `json:"steps"`
}

type explainedStep struct {
	Rule    string `json:"rule"`
	Line    int    `json:"line,omitempty"`
	Action  string `json:"action"`
	Mode    string `json:"mode,omitempty"`
	Matched bool   `json:"matched"`
	Failed  string `json:"failed,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// explainedOf describes the result of an evaluation; lines are looked up in
// the document.
func explainedOf(doc *config.Document, a *check.Answer) explained {
	out := explained{
		Action: a.Decision.Action.String(), Rule: a.Decision.RuleID, Reason: a.Decision.Reason, Default: a.Fallback,
		Upstream: a.Route.Upstream, Route: a.Route.Reason, Labels: a.Labels, Steps: []explainedStep{},
	}
	if a.Decision.Approval() != nil {
		out.Approval = plane.ApprovalRequired
	}
	for _, r := range a.Observed {
		out.Observed = append(out.Observed, r.ID)
	}
	for _, s := range a.Steps {
		step := explainedStep{Rule: s.Rule.ID, Action: s.Rule.Action.String(), Matched: s.Matched,
			Failed: string(s.Failed), Reason: s.Reason, Line: ruleLine(doc, s.Rule.Index)}
		if s.Rule.Observe {
			step.Mode = "observe"
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

func ruleLine(doc *config.Document, i int) int {
	return doc.Pos(fmt.Sprintf("policy.rules[%d].id", i)).Line
}

// withApproval follows the action allow of a rule whose calls pass only with a grant.
const withApproval = " after the approval of a person"

// decided returns a decision in a few words.
func decided(d *policy.Decision) string {
	action := d.Action.String()
	if d.Reason != "" {
		action += " (" + d.Reason + ")"
	}
	if d.Approval() != nil {
		action += withApproval
	}
	switch {
	case d.Rule != nil:
		return fmt.Sprintf("%s by rule %q", action, d.RuleID)
	case d.RuleID != "":
		return fmt.Sprintf("%s by %s", action, d.RuleID)
	}
	return action + " by default: no rule matches"
}

// stepRows are the rows of a table about the steps.
func stepRows(a *check.Answer, doc *config.Document) [][]string {
	rows := make([][]string, 0, len(a.Steps)+1)
	for _, s := range a.Steps {
		what, action := s.Reason, s.Action.String()
		if s.Action == policy.Allow && s.Rule.Approval != nil {
			action += withApproval
		}
		switch {
		case s.Matched && s.Rule.Observe:
			what = "matches, and only observes: it would " + action
		case s.Matched:
			what = "matches: " + action
		}
		if s.Matched && s.Reason != "" {
			what += "; " + s.Reason
		}
		line := ""
		if doc != nil {
			line = command.Count(int64(ruleLine(doc, s.Rule.Index)))
		}
		rows = append(rows, []string{command.Count(int64(s.Rule.Index + 1)), s.Rule.ID, line, what})
	}
	if a.Fallback != "" {
		rows = append(rows, []string{"", "default", "", a.Fallback})
	}
	return rows
}

// callerWords describes a caller.
func callerWords(key string, claims *policy.Claims) string {
	switch {
	case claims != nil:
		parts := []string{"OAuth caller"}
		if claims.Subject != "" {
			parts = append(parts, fmt.Sprintf("%q", claims.Subject))
		}
		if len(claims.Groups) > 0 {
			parts = append(parts, "groups "+strings.Join(claims.Groups, " "))
		}
		if len(claims.Scopes) > 0 {
			parts = append(parts, "scopes "+strings.Join(claims.Scopes, " "))
		}
		if claims.Unreadable != 0 {
			parts = append(parts, "not readable: "+claims.Unreadable.String())
		}
		return strings.Join(parts, ", ")
	case key != "":
		return fmt.Sprintf("API key %q", key)
	}
	return "caller without key or token"
}
