package policycmd

import (
	"fmt"
	"io"
	"strings"

	"svc/cli/command"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// maxClose bounds the rules that are shown in addition to the deciding one.
const maxClose = 10

// whyRules is the evaluation of the rules of a configuration for the request.
type whyRules struct {
	File     string    `json:"file"`
	Note     string    `json:"note,omitempty"`
	Decided  *whyRule  `json:"decided,omitempty"`
	Close    []whyRule `json:"close"`
	NotShown int       `json:"notShown,omitempty"` // number of close rules beyond the bound
}

// whyRule is one rule and how it matches the request.
type whyRule struct {
	Rule    string `json:"rule"`
	Line    int    `json:"line"`
	Action  string `json:"action"`
	Matched string `json:"matched,omitempty"` // the conditions that match
	// Why is the reason why the rule did not decide.
	Why       string `json:"why,omitempty"`
	Undecided bool   `json:"undecided,omitempty"`
}

// rulesOf finds the deciding rule, and the rules that nearly matched.
func rulesOf(doc *config.Document, file *config.File, path string, q *decidedRequest) (*whyRules, error) {
	set, err := policy.Compile(file.Policy, file.DataFlow.Names().List()...)
	if err != nil {
		return nil, err
	}
	out := &whyRules{File: path, Close: []whyRule{}}
	ask := policy.Request{Direction: policy.ClientToServer, Method: q.Method, Tool: q.Tool, HasTool: q.Tool != "", Upstream: q.Upstream, Restored: q.restored()}
	if ask.Method == "" && q.Tool != "" {
		ask.Method = mcp.MethodToolsCall // traces have no method
	}
	byPolicy := q.Rule == "" && q.Outcome == "blocked" && len(q.Policies) > 0 // the audit line has no rule
	decided, noClaims := -1, q.Kind == "key" || q.Kind == "ip"                // without a token no claims match
	for i := range file.Policy.Rules {
		if file.Policy.Rules[i].ID == q.Rule && q.Rule != "" {
			decided = i
		}
	}
	switch {
	case decided >= 0:
	case q.Rule == policy.DefaultDenyID:
		out.Note = set.Fallback(&ask)
	case q.Rule != "":
		out.Note = fmt.Sprintf("the file has no rule %q: it has changed since, or is the config of another gateway", q.Rule)
	case byPolicy:
		out.Note = "no rule of the file blocked the call: a policy of the control plane did, after the rules"
	default:
		out.Note = "no rule of the file decided"
	}
	if ask.Method == "" {
		out.Note = strings.TrimPrefix(out.Note+"; the method is not known, so other rules are not judged: use --audit", "; ")
	}
	for i, r := range set.Rules() {
		step := whyRule{Rule: r.ID, Action: r.Action.String(), Line: ruleLine(doc, i)}
		if r.Approval != nil {
			step.Action += withApproval
		}
		if i == decided {
			step.Matched = conditionsOf(file.Policy.Rules[i].When)
			out.Decided = &step
			continue
		}
		if ask.Method == "" || !closeBy(&step, r, &file.Policy.Rules[i], &ask, decided >= 0 && i > decided, noClaims) {
			continue
		}
		if len(out.Close) == maxClose {
			out.NotShown++
			continue
		}
		if byPolicy && step.Why == changedSince {
			step.Why = "matches; the policy was asked after the rules"
		}
		out.Close = append(out.Close, step)
	}
	return out, nil
}

// changedSince is the text for a rule that would decide now, when no deciding rule was
// recorded.
const changedSince = "matches now: the file has changed since the request"

// closeBy reports whether a rule nearly matched: its direction, method and tool match,
// and it names one of them or has a condition that does not match.
func closeBy(step *whyRule, r *policy.Rule, c *policy.RuleConfig, q *policy.Request, behind, noClaims bool) bool {
	failed, _ := r.Misses(q)
	if failed != "" && (failed != policy.ConditionClaims || noClaims) {
		return false
	}
	step.Matched = conditionsOf(c.When)
	var depends []string
	if failed == policy.ConditionClaims {
		depends = append(depends, "the identity of the caller (claims)")
	}
	if len(c.When.Arguments) > 0 {
		depends = append(depends, "the arguments")
	}
	switch {
	case behind && len(depends) > 0:
		step.Undecided, step.Why = true, "comes after the rule that decided, and depends on "+strings.Join(depends, " and ")
	case behind:
		step.Why = "matches, and comes after the rule that decided"
	case r.Observe:
		step.Undecided, step.Why = len(depends) > 0, "only observes"
	case len(depends) > 0:
		step.Undecided, step.Why = true, "undecided: depends on "+strings.Join(depends, " and ")
	default:
		step.Why = changedSince
	}
	return true
}

// conditionsOf formats the conditions of a rule as in the configuration. Conditions on
// arguments and claims are only named.
func conditionsOf(w *policy.When) string {
	var parts []string
	text := func(key string, value *string) {
		if value != nil {
			parts = append(parts, fmt.Sprintf("%s: %q", key, *value))
		}
	}
	text("tool_name", w.ToolName)
	text("tool_prefix", w.ToolPrefix)
	text("tool_glob", w.ToolGlob)
	text("tool_regex", w.ToolRegex)
	if w.ToolNameIn != nil {
		parts = append(parts, fmt.Sprintf("tool_name_in: %d names", len(w.ToolNameIn)))
	}
	if w.Method != "" {
		text("method", &w.Method)
	}
	if len(w.Upstream) > 0 {
		parts = append(parts, "upstream: "+strings.Join(w.Upstream, ", "))
	}
	if len(w.Restores) > 0 {
		parts = append(parts, "restores: "+strings.Join(w.Restores, ", "))
	}
	if w.Claims != nil {
		parts = append(parts, "claims")
	}
	if len(w.Arguments) > 0 {
		parts = append(parts, "arguments")
	}
	if len(parts) == 0 {
		return "no condition"
	}
	return strings.Join(parts, ", ")
}

func (r *whyRules) write(w io.Writer) {
	fmt.Fprintf(w, "\nrules of %s:\n", command.Clean(r.File))
	if r.Note != "" {
		fmt.Fprintf(w, "  %s\n", command.Clean(r.Note))
	}
	one := func(s *whyRule, why string) {
		fmt.Fprintf(w, "  %s:%d: %s %q (%s): %s\n", command.Clean(r.File), s.Line, s.Action, s.Rule, command.Clean(s.Matched), why)
	}
	if r.Decided != nil {
		one(r.Decided, "decided")
	}
	for i := range r.Close {
		one(&r.Close[i], r.Close[i].Why)
	}
	if r.NotShown > 0 {
		fmt.Fprintf(w, "  and %d more that came close\n", r.NotShown)
	}
}
