package lint

import (
	"regexp"
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// redactHitsNames warns of redactions of answers that change the names of tools in lists: the
// gateway routes by the upstream's names, so that no client can call a tool by the rewritten
// name. It checks the names in the file.
func redactHitsNames(p *pass) {
	names := p.toolNames()
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.Redact.String() || !r.ways[down] || !r.decides() || r.When.Method != "" || r.inputRequired {
			continue
		}
		for j := range r.Redact {
			re, err := regexp.Compile(r.Redact[j].Regex)
			if err != nil || r.Redact[j].Regex == "" {
				continue
			}
			if hit := slices.IndexFunc(names, func(name string) bool { return hitsName(re, name) }); hit >= 0 {
				p.warn(p.ruleAt(r.index).Field("redact").Index(j).Field("regex"), "make the expression match what is to be hidden and no name",
					"rule %s rewrites the tool name %q in lists: clients cannot call a tool by the new name", r.quoted(), names[hit])
			}
		}
	}
}

// hitsName reports whether an expression matches a part of a tool's name in a list.
func hitsName(re *regexp.Regexp, name string) bool {
	const before = `{"name":`
	quoted := mcp.AppendString(nil, name)
	text := append([]byte(before), quoted...)
	text = append(text, ',')
	for _, at := range re.FindAllIndex(text, -1) {
		if at[0] < at[1] && at[0] < len(before)+len(quoted)-1 && at[1] > len(before)+1 {
			return true
		}
	}
	return false
}

// toolNames returns the exact names of tools in rules and routes, in the order of the file, each
// once.
func (p *pass) toolNames() []string {
	var names []string
	seen := map[string]bool{"": true, "*": true}
	add := func(list ...string) {
		for _, name := range list {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	for i := range p.rules {
		if w := p.rules[i].When; w.ToolName != nil {
			add(*w.ToolName)
		} else {
			add(w.ToolNameIn...)
		}
	}
	for i := range p.routes {
		add(p.routes[i].Match.ToolName)
		add(p.routes[i].Match.ToolNameIn...)
	}
	return names
}
