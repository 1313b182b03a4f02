package display

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"svc/store/api"
)

// Action returns what a policy does.
func Action(p *api.Policy) string {
	switch {
	case p.Approval != nil:
		return p.Action + ", approval"
	case p.RedactionStrategy != "":
		return p.Action + ": " + p.RedactionStrategy
	}
	return p.Action
}

// OnAgent returns the agent that a policy is for.
func OnAgent(on string) string {
	if on == "" || on == api.AllAgents {
		return "all"
	}
	return on
}

// Condition describes the condition of a policy in words.
func Condition(c *api.Condition) string {
	switch c.Type {
	case "injection_score":
		if c.Threshold != nil {
			return "injection ≥ " + strconv.FormatFloat(*c.Threshold, 'g', 4, 64)
		}
	case "pii_detected":
		if len(c.Entities) == 0 {
			return "any PII"
		}
		return "PII " + strings.Join(c.Entities, ", ")
	case "tool_name":
		return "tool " + c.ToolName
	case "tool_arguments":
		return "tool " + c.ToolName + " with " + string(c.Arguments)
	case "data_flow":
		if c.ToolName != "" {
			return c.Labels() + " at tool " + c.ToolName
		}
		return c.Labels()
	case "budget_exceeded":
		return "budget exceeded"
	}
	return c.Type
}

// Enforced says how many of the running gateways enforce a policy; empty where it is not known, or nobody should. fresh
// is set shortly after a change: gateways report it within 10 seconds.
func Enforced(by *api.EnforcedBy, fresh bool) Word {
	if by == nil {
		return Word{}
	}
	text := Count(int64(by.Gateways)) + " of " + Count(int64(by.Of))
	switch {
	case by.Of == 0:
		return Word{"no gateway runs", Warn}
	case by.Gateways == by.Of:
		return Word{text, Good}
	case fresh:
		return Word{text + " so far", Dim}
	case by.Gateways == 0:
		return Word{"none of " + Count(int64(by.Of)), Bad}
	}
	return Word{text, Warn}
}

// Governed counts the running instances of gateways, and those of them that enforce policies. Where instances sign
// their reports, only those count, as in EnforcedBy. The list has stopped instances too.
func Governed(list []api.Gateway) (n, of int) {
	for _, i := range counted(list) {
		if of++; i.Governance.Enabled {
			n++
		}
	}
	return n, of
}

// NewestPolicies counts the instances of Governed, and those of them that enforce the newest policies. It returns the
// gateways that do not, with the word of GatewayPolicies of their worst instance: those that are behind first.
func NewestPolicies(list []api.Gateway) (n, of int, not []Check) {
	states := map[Level]string{Dim: CheckOK, Warn: CheckWarn, Bad: CheckWrong}
	for name, i := range counted(list) {
		of++
		w := GatewayPolicies(*i)
		c := Check{Name: name, Text: w.Text, State: states[w.Level]}
		last := len(not) - 1
		switch {
		case w.Level == Plain:
			n++
		case last < 0 || not[last].Name != name:
			not = append(not, c)
		case slices.Index(checkStates, c.State) > slices.Index(checkStates, not[last].State):
			not[last] = c
		}
	}
	Checks(not).Sort()
	return n, of, not
}

// counted goes through the instances that count, with the names of their gateways.
func counted(list []api.Gateway) iter.Seq2[string, *api.GatewayInstance] {
	signed := slices.ContainsFunc(list, func(g api.Gateway) bool { return g.SignedBy != "" })
	return func(yield func(string, *api.GatewayInstance) bool) {
		for i := range list {
			for j := range list[i].Instances {
				g := &list[i].Instances[j]
				if g.State == api.GatewayRunning && (g.Signed || !signed) && !yield(list[i].Name, g) {
					return
				}
			}
		}
	}
}
