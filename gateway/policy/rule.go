package policy

import (
	"fmt"
	"math"
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/match"
)

// Rule is a compiled rule. It is immutable and safe for concurrent use.
type Rule struct {
	ID     string
	Action Action
	// Index is the index of the rule in the list, counted from 0.
	Index int
	// Observe is set for mode observe, which is never enforced: see [Set.Observed].
	Observe bool
	// Message is for the client of a request that the rule denies; it may be empty.
	Message string
	// Approval is set for an [Allow] rule whose calls pass only with a grant.
	Approval *Approval
	// TokensPerSecond and Burst are the bucket of a [RateLimit] rule.
	TokensPerSecond float64
	Burst           int
	// Guardrail is the endpoint of a [Guardrail] rule. Frames makes the rule check the
	// frames of event streams.
	Guardrail string
	Frames    bool

	substitutions []*substitution

	direction     Direction
	method        string // empty matches any method
	tool          match.Matcher
	toolKey       string // the matcher as in the configuration, for explanations
	toolText      string
	inputRequired bool
	upstreams     []string   // empty for any
	restores      []string   // entities; nil for a rule that does not ask
	labels        *labelRule // nil without conditions on labels
	uri           *uriRule   // nil without uri_prefix
	claims        *claimRule
	arguments     *arguments.Condition // nil without conditions on arguments
}

// newRule compiles a rule, with labels of the declared names, and adds its conditions on arguments to the plan. It returns
// errors only for a configuration that was not validated.
func newRule(i int, c *RuleConfig, names *flow.Names, plan *arguments.Plan) (*Rule, error) {
	action := slices.Index(actionNames[:], c.Action)
	if action < 0 {
		return nil, fmt.Errorf("action is %q", c.Action)
	}
	if c.When == nil {
		return nil, fmt.Errorf("the rule has no when")
	}
	r := &Rule{ID: c.ID, Index: i, Action: Action(action), Observe: c.Mode == ModeObserve, Message: c.Message, method: c.When.Method}
	if !r.Observe && c.Mode != "" && c.Mode != modeEnforce {
		return nil, fmt.Errorf("mode is %q", c.Mode)
	}
	if err := r.setAction(c); err != nil {
		return nil, err
	}
	if err := r.setConditions(c.When, names); err != nil {
		return nil, err
	}
	if c.When.Arguments != nil {
		if r.direction != ClientToServer {
			return nil, fmt.Errorf("arguments need direction: %s", clientToServer)
		}
		condition, err := plan.Add(c.When.Arguments, r.permits())
		if err != nil {
			return nil, err
		}
		r.arguments = condition
	}
	return r, nil
}

// permits reports whether the rule only permits. Such a rule does not match where its conditions
// cannot be evaluated; any other rule, also one with approval, must not be avoided that way.
func (r *Rule) permits() bool { return r.Action == Allow && r.Approval == nil }

// setAction sets the fields of the action.
func (r *Rule) setAction(c *RuleConfig) error {
	if c.Approval != nil {
		if r.Action != Allow || r.method != "" && !Approvable(r.method) {
			return fmt.Errorf("approval needs the action allow, and one of %v", approvable)
		}
		var err error
		if r.Approval, err = c.Approval.compile(); err != nil {
			return err
		}
	}
	switch r.Action {
	case Redact:
		if len(c.Redact) == 0 {
			return fmt.Errorf("a redact rule has no substitutions")
		}
		for _, sub := range c.Redact {
			s, err := newSubstitution(sub)
			if err != nil {
				return err
			}
			r.substitutions = append(r.substitutions, s)
		}
	case RateLimit:
		if c.TokensPerSecond == nil || !(*c.TokensPerSecond > 0) || math.IsInf(*c.TokensPerSecond, 0) {
			return fmt.Errorf("a rate_limit rule needs tokens_per_second above 0")
		}
		r.TokensPerSecond, r.Burst = *c.TokensPerSecond, 1
		if c.Burst != nil {
			if *c.Burst < 1 {
				return fmt.Errorf("burst is %d", *c.Burst)
			}
			r.Burst = *c.Burst
		}
	case Guardrail:
		if c.Guardrail == nil || *c.Guardrail == "" {
			return fmt.Errorf("a guardrail rule has no guardrail")
		}
		r.Guardrail, r.Frames = *c.Guardrail, c.Frames
	}
	return nil
}

// setConditions sets the conditions.
func (r *Rule) setConditions(w *When, names *flow.Names) error {
	switch d := w.Direction; {
	case d == nil || *d == clientToServer:
		r.direction = ClientToServer
	case *d == serverToClient:
		r.direction = ServerToClient
	case *d == "":
		r.direction = Any
	default:
		return fmt.Errorf("direction is %q", *d)
	}
	if r.Approval != nil && r.direction != ClientToServer {
		return fmt.Errorf("approval needs direction: %s", clientToServer)
	}
	if w.ResultType != "" {
		if w.ResultType != mcp.ResultInputRequired || r.direction != ServerToClient {
			return fmt.Errorf("result_type %q needs direction: %s", w.ResultType, serverToClient)
		}
		r.inputRequired = true
	}
	if w.Upstream != nil && len(w.Upstream) == 0 {
		return fmt.Errorf("upstream is empty")
	}
	r.upstreams = w.Upstream
	if w.Restores != nil && (len(w.Restores) == 0 || r.direction != ClientToServer) {
		return fmt.Errorf("restores needs entities, and direction: %s", clientToServer)
	}
	r.restores = w.Restores
	r.claims = newClaimRule(w.Claims)
	written := w.Tool()
	var err error
	if r.tool, err = match.Compile(&written); err != nil {
		return err
	}
	r.toolKey, r.toolText = written.Text()
	if r.labels, err = newLabelRule(r, w, names); err != nil {
		return err
	}
	r.uri, err = newURIRule(r, w)
	return err
}
