package display

import (
	"fmt"
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

// Enforced says how many of the running gateways enforce a policy, and whether that is good, warn or bad; both are
// empty where it is not known, or nobody should. fresh is set shortly after a change: gateways report it within
// 10 seconds.
func Enforced(by *api.EnforcedBy, fresh bool) (text, level string) {
	switch {
	case by == nil:
		return "", ""
	case by.Of == 0:
		return "no gateway runs", "warn"
	case by.Gateways == by.Of:
		return fmt.Sprintf("%s of %s", Count(int64(by.Gateways)), Count(int64(by.Of))), "good"
	case fresh:
		return fmt.Sprintf("%s of %s so far", Count(int64(by.Gateways)), Count(int64(by.Of))), "dim"
	case by.Gateways == 0:
		return "none of " + Count(int64(by.Of)), "bad"
	}
	return fmt.Sprintf("%s of %s", Count(int64(by.Gateways)), Count(int64(by.Of))), "warn"
}

// Governed counts the running instances of gateways, and those of them that enforce policies. Where instances sign
// their reports, only those count, as in EnforcedBy. The list has stopped instances too.
func Governed(list []api.Gateway) (n, of int) {
	signed := false
	for i := range list {
		for j := range list[i].Instances {
			signed = signed || list[i].Instances[j].Signed
		}
	}
	for i := range list {
		for j := range list[i].Instances {
			g := &list[i].Instances[j]
			if g.State != api.GatewayRunning || signed && !g.Signed {
				continue
			}
			if of++; g.Governance.Enabled {
				n++
			}
		}
	}
	return n, of
}
