package lint

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
