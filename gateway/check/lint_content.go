package check

import (
	"regexp"
	"slices"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/upstream"
)

// redactEmptyMatch warns of expressions that match the empty text, between any two characters.
func redactEmptyMatch(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		for j := range r.Redact {
			re, err := regexp.Compile(r.Redact[j].Regex)
			if err == nil && r.Redact[j].Regex != "" && re.MatchString("") {
				p.warn(p.ruleAt(r.index).Field("redact").Index(j).Field("regex"), "require at least one character, as + does instead of *",
					"rule %s: the regex matches the empty text, so the replacement is put between characters that it does not match", r.quoted())
			}
		}
	}
}

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

// skillRedacted warns of redact rules for answers that are about skills alone. It names the rules for all
// answers of an upstream that is known to have skills, because they are pinned.
func skillRedacted(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.Redact.String() || !r.ways[down] || !r.decides() || r.inputRequired {
			continue
		}
		w, at := r.When, p.ruleAt(r.index).Field("action")
		if w.Method == mcp.MethodSkillsList || w.Method == mcp.MethodSkillsGet || w.URIPrefix != nil && strings.HasPrefix(strings.ToLower(*w.URIPrefix), "skill:") {
			p.warn(at, "use deny for what must not pass, or remove the rule",
				"rule %s redacts answers about skills: an entry or file of a skill that a rule would change is denied, because clients compare it with its digest", r.quoted())
			continue
		}
		if w.URIPrefix != nil || w.Method != "" && w.Method != mcp.MethodResourcesRead || r.tools != nil || len(w.Arguments) > 0 {
			continue
		}
		pinned := slices.IndexFunc(p.file.Upstreams, func(u upstream.Config) bool {
			return upstream.Pins(u.PinSkills) && (len(w.Upstream) == 0 || slices.Contains(w.Upstream, u.Name))
		})
		if pinned >= 0 {
			p.info(at, "narrow the rule with when (method, upstream), where skills may have such text",
				"rule %s redacts answers of the upstream %q, whose skills are pinned: an entry or file of a skill that it would change is denied", r.quoted(), p.file.Upstreams[pinned].Name)
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

// redactRequestOnly warns of redactions that do not apply to answers (gateway specification,
// Action: redact).
func redactRequestOnly(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.Redact.String() || r.ways[down] || !r.decides() {
			continue
		}
		twin := slices.ContainsFunc(p.rules, func(a rule) bool {
			return a.Action == policy.Redact.String() && a.ways[down] && a.decides() && slices.ContainsFunc(a.Redact, func(s policy.Substitution) bool {
				return slices.ContainsFunc(r.Redact, func(o policy.Substitution) bool { return o.Regex == s.Regex })
			})
		})
		if !twin {
			p.warn(p.ruleAt(r.index).Field("id"), "add a rule with direction: server_to_client and the same redact",
				"rule %s rewrites only messages of clients: answers with the same text reach the client unchanged", r.quoted())
		}
	}
}

// unusedGuardrail warns of endpoints that no rule uses.
func unusedGuardrail(p *pass) {
	used := map[string]bool{}
	for i := range p.file.Policy.Rules {
		if g := p.file.Policy.Rules[i].Guardrail; g != nil {
			used[*g] = true
		}
	}
	for i := range p.file.Guardrails {
		if name := p.file.Guardrails[i].Name; !used[name] {
			p.warn(p.root().Field("guardrails").Index(i).Field("name"), "add a rule with action: guardrail, or remove it", "no rule uses the guardrail %q", name)
		}
	}
}

// guardrailSSEDirection warns of guardrails on server messages that do not apply to event streams
// (gateway specification, Action: guardrail).
func guardrailSSEDirection(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action == policy.Guardrail.String() && r.ways[down] && !r.Frames {
			p.warn(p.ruleAt(r.index).Field("when").Field("direction"), "add frames: true to check each frame, or deny the streams",
				"rule %s checks plain JSON answers only: messages in event streams of upstreams pass unchecked", r.quoted())
		}
	}
}

// skipVerify warns of certificates that are not verified.
func skipVerify(p *pass) {
	for i := range p.file.Guardrails {
		if g := &p.file.Guardrails[i]; g.TLS.SkipVerify {
			p.warn(p.root().Field("guardrails").Index(i).Field("tls").Field("skip_verify"), "name the authority with tls.ca_file",
				"the certificate of the guardrail %q is not verified: an attacker on the network can read every message sent to it, and decide in its place", g.Name)
		}
	}
}
