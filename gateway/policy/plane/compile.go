package plane

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"svc/gateway/mcp/match"
	"svc/gateway/policy"
	"svc/gateway/policy/arguments"
	"svc/gateway/policy/detect"
	"svc/store/api"
)

// Bounds of a bundle. A bundle beyond them is rejected as a whole.
const (
	maxPolicies = 10_000
	maxBudgets  = 100_000
	maxNames    = 1_000_000 // former names of agents, and names of agents of teams
	hashKeySize = 32        // bytes
)

// errBundle is wrapped by the errors of [Compile].
var errBundle = errors.New("the bundle cannot be enforced")

// Compile validates and compiles a bundle. A bundle with a policy that this version
// cannot enforce is rejected as a whole: the error wraps errBundle. Budgets of environments are taken
// for those of the gateway, see [inEnvironment]. secrets are
// the keys of tokens, the current one first; without any, values become hashes where a policy
// asks for tokens.
func Compile(g *api.Governance, d Detectors, secrets ...[]byte) (*Bundle, error) {
	names := len(g.Aliases)
	for i := range g.Teams {
		names += len(g.Teams[i].AgentNames)
	}
	if len(g.Policies) > maxPolicies || len(g.Budgets) > maxBudgets || names > maxNames || len(g.Teams) > maxBudgets {
		return nil, fmt.Errorf("%w: it has %d policies, %d budgets and %d names of agents, the limits are %d, %d and %d",
			errBundle, len(g.Policies), len(g.Budgets), names, maxPolicies, maxBudgets, maxNames)
	}
	if g.Policies == nil {
		return nil, fmt.Errorf("%w: the member policies is absent", errBundle)
	}
	key, err := base64.StdEncoding.DecodeString(g.HashKey)
	if err != nil || len(key) != hashKeySize {
		return nil, fmt.Errorf("%w: hashKey is not the base64 of %d bytes", errBundle, hashKeySize)
	}
	c := compiler{detectors: d, key: key, present: make(map[string]string, len(g.Aliases)), scanners: map[string]Scanner{}, own: map[string][phases][]*Policy{}, plans: map[string]*arguments.Plan{}}
	if len(secrets) > 0 {
		if c.tokens, err = detect.NewTokens(key, secrets...); err != nil {
			return nil, fmt.Errorf("%w: keys of tokens: %w", errBundle, err)
		}
	}
	for _, a := range g.Aliases {
		c.present[strings.TrimSpace(a.Alias)] = strings.TrimSpace(a.AgentName)
	}
	for i := range g.Policies {
		if err := c.add(i, &g.Policies[i]); err != nil {
			return nil, fmt.Errorf("%w: policy %s: %w", errBundle, g.Policies[i].ID, err)
		}
	}
	every, resets, err := exceeded(g)
	if err != nil {
		return nil, err
	}
	for _, list := range []*[]string{&c.unknown, &c.labels} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	b := &Bundle{policies: len(g.Policies), revision: g.Revision, key: key, agents: make(map[string]*Set, len(c.own)), unknown: c.unknown, labels: c.labels, tokens: c.tokens, makesTokens: c.makesTokens}
	b.others = c.set(c.all, [phases][]*Policy{}, every)
	for agent, own := range c.own {
		b.agents[agent] = c.set(c.all, own, slices.Concat(every, resets[agent]))
	}
	for agent, at := range resets {
		if b.agents[agent] == nil {
			b.agents[agent] = c.set(c.all, [phases][]*Policy{}, slices.Concat(every, at))
		}
	}
	for alias, agent := range c.present {
		if s, ok := b.agents[agent]; ok {
			b.agents[alias] = s
		}
	}
	return b, nil
}

// inEnvironment returns a bundle without the budgets of other environments, which do not cover calls of
// a gateway in this one.
func inEnvironment(g *api.Governance, environment string) *api.Governance {
	mine := *g
	mine.Budgets = slices.DeleteFunc(slices.Clone(g.Budgets), func(b api.BudgetState) bool {
		return b.Scope == "environment" && b.Environment != environment
	})
	return &mine
}

// exceeded returns when the exceeded budgets are reset that cover every call of the gateway, and
// those that cover the calls of some agents.
func exceeded(g *api.Governance) (every []time.Time, agents map[string][]time.Time, err error) {
	agents = map[string][]time.Time{}
	for _, b := range g.Budgets {
		var of []string
		switch b.Scope {
		case "", "agent":
			of = []string{b.AgentName}
		case "team":
			for _, t := range g.Teams {
				if t.TeamID == b.TeamID {
					of = append(of, t.AgentNames...)
				}
			}
		case "tenant", "environment":
			if b.Exceeded {
				every = append(every, b.ResetAt)
			}
		default:
			return nil, nil, fmt.Errorf("%w: budget %s: the scope %q is not known", errBundle, b.ID, b.Scope)
		}
		for _, name := range of {
			if name = strings.TrimSpace(name); b.Exceeded && name != "" {
				agents[name] = append(agents[name], b.ResetAt)
			}
		}
	}
	return every, agents, nil
}

// compiler is the state of compiling a bundle.
type compiler struct {
	detectors Detectors
	key       []byte
	present   map[string]string            // from former names of agents to the present ones
	all       [phases][]*Policy            // of all agents
	own       map[string][phases][]*Policy // by the agent that they name
	scanners  map[string]Scanner           // by their entities
	// plans hold the pointers of conditions on arguments: of the policies for all agents (by ""),
	// and of those for each agent. The bounds on the work for a message count only the conditions
	// of its own agent.
	plans   map[string]*arguments.Plan
	unknown []string
	labels  []string

	tokens      *detect.Tokens
	makesTokens bool
}

// add compiles one policy.
func (c *compiler) add(order int, in *api.GovernancePolicy) error {
	p := &Policy{ID: strings.Clone(in.ID), Name: in.Name, Message: api.CleanMessage(in.Message), order: order}
	if !api.ValidID(in.ID) {
		return errors.New("its id is not valid")
	}
	phase := slices.Index(api.Phases, in.Phase)
	if phase < 0 {
		return fmt.Errorf("the phase %q is not known", in.Phase)
	}
	switch in.Action {
	case "block":
		p.Action = Block
	case "warn":
	case "redact":
		p.Action, p.strategy = Redact, in.RedactionStrategy
		if !slices.Contains(api.RedactionStrategies, p.strategy) {
			return fmt.Errorf("the redaction strategy %q is not known", p.strategy)
		}
		if p.strategy == tokenStrategy {
			if Phase(phase) != Response {
				return errors.New("the redaction strategy token is for the phase response alone")
			}
			c.makesTokens = true
		}
	default:
		return fmt.Errorf("the action %q is not known", in.Action)
	}
	if in.Approval != nil {
		if p.Action != Block || Phase(phase) != Request {
			return errors.New("approval is for the action block in the phase request alone")
		}
		var err error
		if p.Approval, err = policy.ApprovalOf(in.Approval); err != nil {
			return err
		}
	}
	// Names of agents have no white space around them: a policy for a name with white
	// space would never apply.
	on := strings.TrimSpace(in.On)
	if on == api.AllAgents {
		on = ""
	}
	if name, ok := c.present[on]; ok && on != "" {
		on = name
	}
	if err := c.condition(p, &in.Condition, Phase(phase), on); err != nil {
		return err
	}
	if on == "" {
		c.all[phase] = append(c.all[phase], p)
		return nil
	}
	own := c.own[on]
	own[phase] = append(own[phase], p)
	c.own[on] = own
	return nil
}

// condition compiles the condition of the policy. on is the agent, empty for all.
func (c *compiler) condition(p *Policy, in *api.Condition, phase Phase, on string) error {
	switch in.Type {
	case "always":
		p.condition = always
	case "budget_exceeded":
		p.condition = budgetExceeded
	case "injection_score":
		p.condition = injectionScore
		if in.Threshold == nil || math.IsNaN(*in.Threshold) {
			return errors.New("injection_score has no threshold")
		}
		p.threshold = *in.Threshold
		// The first score takes longer, because it loads tables. It is computed here so
		// that no request waits.
		c.detectors.Injection(nil)
	case "pii_detected":
		p.condition = piiDetected
		for _, name := range in.Entities {
			e, ok := c.detectors.Entity(name)
			if !ok {
				e = name // never found, and different from "any"
				c.unknown = append(c.unknown, name)
			}
			p.entities = append(p.entities, e)
		}
	case "tool_name":
		p.condition = toolName
		return p.takeTool(in)
	case "tool_arguments":
		p.condition = toolArguments
		if err := p.takeTool(in); err != nil {
			return err
		}
		if phase != Request {
			return errors.New("tool_arguments is for the phase request alone")
		}
		return c.takeArguments(p, in.Arguments, on)
	case "data_flow":
		p.condition = dataFlow
		if phase != Request || len(in.LabelsAll)+len(in.LabelsAny) == 0 {
			return errors.New("data_flow needs labelsAll or labelsAny, and is for the phase request alone")
		}
		p.labelsAll, p.labelsAny = in.LabelsAll, in.LabelsAny
		c.labels = append(append(c.labels, in.LabelsAll...), in.LabelsAny...)
		if in.ToolName != "" {
			return p.takeTool(in)
		}
	default:
		return fmt.Errorf("the condition %q is not known", in.Type)
	}
	return nil
}

// takeTool compiles the name or pattern of a tool.
func (p *Policy) takeTool(in *api.Condition) error {
	if in.ToolName == "" {
		return fmt.Errorf("%s has no toolName", in.Type)
	}
	// As in a shell, a text that is not a valid pattern is a literal name. One
	// invalid pattern must not reject all other policies.
	p.toolName = in.ToolName
	p.tool, _ = match.CompileGlob(in.ToolName)
	return nil
}

// takeArguments compiles a condition on arguments. Over a wildcard one element is
// enough, as for every action of a rule but allow.
func (c *compiler) takeArguments(p *Policy, raw []byte, on string) error {
	cfg, wrong := arguments.Parse(raw)
	if len(wrong) > 0 {
		return fmt.Errorf("tool_arguments: %w", wrong[0])
	}
	if p.plan = c.plans[on]; p.plan == nil {
		p.plan = new(arguments.Plan)
		c.plans[on] = p.plan
	}
	var err error
	p.arguments, err = p.plan.Add(cfg, false)
	return err
}

// set returns the set of one agent; nil when there are no policies.
func (c *compiler) set(all, own [phases][]*Policy, resets []time.Time) *Set {
	s := &Set{key: c.key, detectors: c.detectors, tokens: c.tokens, resets: resets}
	empty := true
	for phase := range s.sides {
		side := &s.sides[phase]
		if side.policies = all[phase]; len(own[phase]) > 0 {
			side.policies = slices.Concat(all[phase], own[phase])
			slices.SortFunc(side.policies, func(a, b *Policy) int { return a.order - b.order })
		}
		var names []string
		scans, any := false, false
		for _, p := range side.policies {
			if p.condition == injectionScore {
				side.injection, side.mustScore = true, side.mustScore || p.Action != Warn
			}
			side.labels = side.labels || p.condition == dataFlow
			if p.scans() {
				scans, any = true, any || len(p.entities) == 0
				names = append(names, p.entities...)
			}
		}
		if any {
			names = nil
		}
		if scans {
			side.scanner = c.scanner(names)
		}
		empty = empty && len(side.policies) == 0
	}
	if empty {
		return nil
	}
	return s
}

// scanner returns the scanner for some entities, which agents share.
func (c *compiler) scanner(entities []string) Scanner {
	slices.Sort(entities)
	entities = slices.Compact(entities)
	key := strings.Join(entities, " ")
	s, ok := c.scanners[key]
	if !ok {
		s = c.detectors.Scanner(entities)
		c.scanners[key] = s
	}
	return s
}
