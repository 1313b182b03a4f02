package policy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"svc/gateway/arguments"
	"svc/gateway/glob"
	"svc/gateway/mcp"
)

// Rule is a compiled rule. It is immutable and safe for concurrent use.
type Rule struct {
	ID     string
	Action Action
	// Index is the index of the rule in the list, counted from 0.
	Index int
	// Observe is set for mode observe, which is never enforced: see [Set.Observed].
	Observe bool
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
	tool          toolMatcher
	inputRequired bool
	claims        *claimRule
	arguments     *arguments.Condition // nil without
}

// toolKind is the kind of a tool matcher.
type toolKind uint8

const (
	toolAny    toolKind = iota // no matcher, or tool_name: "*": every method
	toolNames                  // tool_name, tool_name_in
	toolPrefix                 // tool_prefix, and globs that are equivalent to a prefix
	toolGlob
	toolRegex
)

// toolMatcher is the compiled tool matcher of a rule.
type toolMatcher struct {
	kind   toolKind
	names  []string
	prefix string // for patterns: the literal prefix of every match
	suffix string // for globs: the literal suffix of every match
	glob   *glob.Pattern
	regex  *regexp.Regexp

	// key and text are the matcher as in the configuration, for explanations.
	key, text string
}

// newRule compiles a rule, whose conditions on arguments are added to the plan. It
// returns errors only for a configuration that was not validated.
func newRule(i int, c *RuleConfig, plan *arguments.Plan) (*Rule, error) {
	action := slices.Index(actionNames[:], c.Action)
	if action < 0 {
		return nil, fmt.Errorf("action is %q", c.Action)
	}
	if c.When == nil {
		return nil, fmt.Errorf("the rule has no when")
	}
	r := &Rule{ID: c.ID, Index: i, Action: Action(action), Observe: c.Mode == modeObserve, method: c.When.Method}
	if !r.Observe && c.Mode != "" && c.Mode != modeEnforce {
		return nil, fmt.Errorf("mode is %q", c.Mode)
	}
	if err := r.takeAction(c); err != nil {
		return nil, err
	}
	if err := r.takeWhen(c.When); err != nil {
		return nil, err
	}
	if c.When.Arguments != nil {
		if r.direction != ClientToServer {
			return nil, fmt.Errorf("arguments need direction: %s", clientToServer)
		}
		condition, err := plan.Add(c.When.Arguments, r.Action == Allow)
		if err != nil {
			return nil, err
		}
		r.arguments = condition
	}
	return r, nil
}

// takeAction sets the fields of the action.
func (r *Rule) takeAction(c *RuleConfig) error {
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

// takeWhen sets the conditions.
func (r *Rule) takeWhen(w *When) error {
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
	if w.ResultType != "" {
		if w.ResultType != mcp.ResultInputRequired || r.direction != ServerToClient {
			return fmt.Errorf("result_type %q needs direction: %s", w.ResultType, serverToClient)
		}
		r.inputRequired = true
	}
	r.claims = newClaimRule(w.Claims)
	if m := w.matchers(); len(m) > 1 {
		return fmt.Errorf("at most one tool matcher is allowed, found %s", strings.Join(m, ", "))
	}
	switch {
	case w.ToolName != nil && *w.ToolName == anyTool:
	case w.ToolName != nil:
		r.tool = toolMatcher{kind: toolNames, names: []string{*w.ToolName}}
	case w.ToolNameIn != nil:
		if len(w.ToolNameIn) == 0 {
			return fmt.Errorf("tool_name_in is empty")
		}
		r.tool = toolMatcher{kind: toolNames, names: slices.Clone(w.ToolNameIn)}
	case w.ToolPrefix != nil:
		r.tool = toolMatcher{kind: toolPrefix, prefix: *w.ToolPrefix}
	case w.ToolGlob != nil:
		g, err := glob.Compile(*w.ToolGlob)
		if err != nil {
			return err
		}
		r.tool = globMatcher(g)
	case w.ToolRegex != nil:
		re, err := compileAnchored(*w.ToolRegex)
		if err != nil {
			return err
		}
		r.tool = toolMatcher{kind: toolRegex, regex: re.whole, prefix: re.prefix}
	}
	r.tool.key, r.tool.text = w.written()
	if r.tool.kind == toolNames && slices.Contains(r.tool.names, "") || r.tool.kind == toolPrefix && r.tool.prefix == "" && w.ToolPrefix != nil {
		return fmt.Errorf("a tool matcher is empty")
	}
	return nil
}

// globMatcher returns the simplest equivalent matcher of a glob.
func globMatcher(g *glob.Pattern) toolMatcher {
	text, whole, exact := g.Prefix()
	switch {
	case exact:
		return toolMatcher{kind: toolNames, names: []string{text}}
	case whole:
		return toolMatcher{kind: toolPrefix, prefix: text}
	}
	return toolMatcher{kind: toolGlob, glob: g, prefix: text, suffix: g.Suffix()}
}

// anchored is an expression that must match a whole name.
type anchored struct {
	whole  *regexp.Regexp
	prefix string // the literal prefix of every match
}

// compileAnchored compiles an expression so that it must match all of a name:
// a|b becomes ^(?:a|b)$.
func compileAnchored(expr string) (anchored, error) {
	// First without the anchors: "a)(b" is not an expression, though "(?:a)(b)" is one
	// (decision MSG25).
	bare, err := regexp.Compile(expr)
	if err != nil {
		return anchored{}, err
	}
	whole, err := regexp.Compile(`^(?:` + expr + `)$`)
	if err != nil {
		return anchored{}, err
	}
	prefix, _ := bare.LiteralPrefix()
	return anchored{whole, prefix}, nil
}

// matches reports whether the pattern of the rule, if it has one, matches the
// tool of the request.
func (t *toolMatcher) matches(tool string) bool {
	switch t.kind {
	case toolGlob:
		return t.glob.Match(tool)
	case toolRegex:
		return t.regex.MatchString(tool)
	}
	return true
}
