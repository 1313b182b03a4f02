package server

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"svc/store"
	"svc/store/api"
)

// maxWarnings bounds the warnings in one response.
const maxWarnings = 50

func boundWarnings(warnings []string) []string {
	if over := len(warnings) - maxWarnings; over > 0 {
		return append(warnings[:maxWarnings], fmt.Sprintf("and %d more", over))
	}
	return warnings
}

// globMarks are the characters that distinguish a pattern from a name.
const globMarks = "*?["

// asPolicy is the part of a new policy that its warnings depend on.
func asPolicy(p store.PolicyCreate) store.Policy {
	if p.On == "" {
		p.On = api.AllAgents
	}
	return store.Policy{Name: p.Name, On: p.On, Condition: p.Condition}
}

// policyWarnings returns why policies currently match nothing. This is not an error: an
// agent or a tool may be created later. If the store cannot be read, the response has
// no warnings.
func (c *call) policyWarnings(policies ...store.Policy) []string {
	warnings, err := c.findPolicyWarnings(policies)
	if err != nil {
		c.server.log.Warn("policies were not checked for names that nothing has", "request_id", c.id, "error", err)
	}
	return warnings
}

func (c *call) findPolicyWarnings(policies []store.Policy) (warnings []string, err error) {
	for i, p := range policies {
		if i == 0 || p.On != policies[i-1].On { // all policies of a template are for one agent
			about, err := c.agentWarning(p.On)
			if err != nil {
				return nil, err
			}
			warnings = append(warnings, about...)
		}
		for _, e := range p.Condition.Entities {
			if upper := strings.ToUpper(e); !slices.Contains(api.Entities, upper) && !slices.Contains(api.EntitySynonyms, upper) {
				warnings = append(warnings, fmt.Sprintf("condition.entities: no detector finds %q%s", e, meant(e, api.Entities)))
			}
		}
		about, err := c.toolWarning(p)
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, about...)
	}
	return boundWarnings(warnings), nil
}

// agentWarning warns when no agent has the name that policies are for.
func (c *call) agentWarning(on string) ([]string, error) {
	if on == api.AllAgents {
		return nil, nil
	}
	names, err := c.agentNames()
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(names, on):
		return nil, nil
	case strings.ContainsAny(on, globMarks):
		return []string{fmt.Sprintf("on: %q is compared as a name, not as a pattern, and no agent has it; %q means all agents", on, api.AllAgents)}, nil
	}
	return []string{fmt.Sprintf("on: no agent is called %q%s", on, meant(on, names))}, nil
}

// maxToolAgents bounds the agents whose tools are compared when a policy is for all
// agents.
const maxToolAgents = 200

// toolWarning warns when no trace has named the tool of a policy, unless no trace has
// named any tool.
func (c *call) toolWarning(p store.Policy) ([]string, error) {
	tool := p.Condition.ToolName
	if tool == "" || strings.ContainsAny(tool, globMarks) {
		return nil, nil
	}
	agents, _, err := c.tenant.ListAgents(c.Context(), store.AgentFilter{}, store.Page{})
	if err != nil {
		return nil, err
	}
	if p.On != api.AllAgents {
		agents = slices.DeleteFunc(agents, func(a store.Agent) bool { return a.Name != p.On })
	}
	var known []string
	for _, a := range agents[:min(len(agents), maxToolAgents)] {
		tools, _, err := c.traces.ListTools(c.Context(), a.ID, store.Page{})
		if err != nil {
			return nil, err
		}
		for _, t := range tools {
			known = append(known, t.ToolName)
		}
	}
	if len(known) == 0 || len(agents) > maxToolAgents || slices.Contains(known, tool) {
		return nil, nil
	}
	return []string{fmt.Sprintf("condition.toolName: no trace has named the tool %q%s", tool, meant(tool, known))}, nil
}

// meant returns the known name that is most similar to name; empty when none is
// similar.
func meant(name string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k), distance); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance is the number of single-character edits between two names, or most when
// the number is at least that.
func editDistance(a, b string, most int) int {
	if d := utf8.RuneCountInString(a) - utf8.RuneCountInString(b); d >= most || -d >= most {
		return most
	}
	to := []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range []rune(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			cost := 1
			if r == s {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return min(row[len(to)], most)
}
