package check

import (
	"slices"

	"svc/gateway/base/diag"
	"svc/gateway/policy/flow"
	"svc/gateway/redis"
)

// labeled reports whether the rule looks at labels.
func (r *rule) labeled() bool { return r.When.LabelsAll != nil || r.When.LabelsAny != nil }

// restricting returns the enforced rules with labels.
func (p *pass) restricting() (list []*rule) {
	for i := range p.rules {
		if r := &p.rules[i]; r.labeled() && r.decides() {
			list = append(list, r)
		}
	}
	return list
}

// toolLabels calls f for each label entry, with its tools; nil without a tool matcher. Entries that are not valid
// are left out.
func (p *pass) toolLabels(f func(c *flow.LabelConfig, at diag.At, tools *nameSet)) {
	for i := range p.file.DataFlow.Labels {
		c := &p.file.DataFlow.Labels[i]
		written := c.Tool()
		tools, _, err := namesOf(&written)
		if written.IsAny() {
			tools = everyName()
		}
		if err == nil {
			f(c, p.root().Field("data_flow").Field("labels").Index(i), tools)
		}
	}
}

// flowHidden warns of allow rules that let calls pass before a rule below looks at labels. An allow rule
// for some of the tools of the rule below is an exception that somebody wanted.
func flowHidden(p *pass) {
	for _, b := range p.restricting() {
		plain, when := *b.RuleConfig, *b.When
		when.LabelsAll, when.LabelsAny, plain.When = nil, nil, &when
		all := *b
		all.RuleConfig = &plain
		if v, _ := p.covered(b, b.cells(), p.before(b)); v == coversAll {
			continue // a shadowed rule
		}
		for _, a := range p.before(b) {
			if !a.permits() || !p.meet(a, b) {
				continue
			}
			if v, _ := p.covered(a, a.cells(), []*rule{&all}); v != coversAll {
				p.warn(p.ruleAt(b.index).Field("id"), "move it above: the first rule that matches is the only one that acts",
					"rule %s restricts by labels, and %s above it lets some of the same calls pass whatever the labels", b.quoted(), p.name(a))
				break
			}
		}
	}
}

// flowLabelUnset warns of labels that rules look at and no call can set.
func flowLabelUnset(p *pass) {
	can, empty := map[string]bool{}, map[string]diag.At{}
	p.toolLabels(func(c *flow.LabelConfig, at diag.At, tools *nameSet) {
		if tools == nil || !p.budget.Empty(tools) {
			can[c.Name] = true
		} else if _, known := empty[c.Name]; !known {
			empty[c.Name] = at
		}
	})
	told := map[string]bool{}
	for _, r := range p.restricting() {
		for _, name := range slices.Concat(r.When.LabelsAll, r.When.LabelsAny) {
			if at, ok := empty[name]; ok && !can[name] && !told[name] {
				told[name] = true
				p.warn(at.Field("name"), "match tools, upstreams or URIs that exist",
					"no tool name matches the entries of the label %q, so no caller ever has it, and rule %s looks at it", name, r.quoted())
			}
		}
	}
}

// flowReaderSends reports tools that set a label and that no rule with labels restricts: a tool that
// reads can often send too, in the URL or the query that it reads. Which tools can is not in the file.
func flowReaderSends(p *pass) {
	rules := p.restricting()
	if len(rules) == 0 {
		return
	}
	told := map[string]bool{}
	p.toolLabels(func(c *flow.LabelConfig, at diag.At, tools *nameSet) {
		if tools == nil || told[c.Name] || p.budget.Empty(tools) {
			return
		}
		var sets []*nameSet
		for _, r := range rules {
			for _, of := range r.cells() {
				switch {
				case of.tools != nil:
					sets = append(sets, of.tools)
				case of.method == "" && !of.inputRequired:
					sets = append(sets, everyName())
				}
			}
		}
		if v, _ := p.budget.Covers(sets, tools); v == coversNotAll {
			told[c.Name] = true
			p.info(at.Field("name"), "if one of them can send, by a URL, a query or an address, add it to a rule with labels; else silence this",
				"no rule with labels restricts all tools that set %q", c.Name)
		}
	})
}

// flowNotShared warns of replicas that do not share labels.
func flowNotShared(p *pass) {
	if p.file.DataFlow.Used() && p.file.Sessions.KeyFile != "" && p.file.RateLimitStore.Type != redis.TypeRedis {
		p.warn(p.root().Field("data_flow"), "set rate_limit_store to redis, or silence this if there is only one gateway",
			"sessions.key_file is for replicas, and without rate_limit_store: redis each of them knows only the labels that it has set itself")
	}
}

// flowSharedKey reports one key for all clients: what one of them reads restricts all.
func flowSharedKey(p *pass) {
	a := &p.file.Auth
	if p.file.DataFlow.Used() && p.file.DataFlow.Scope == flow.ScopePrincipal && a.Enabled && len(a.Keys) == 1 && !a.OAuth.Enabled {
		p.info(p.root().Field("data_flow"), "give each agent a key of its own, or set scope: session if several use this one; silence this if only one does",
			"all clients have the key %q, and with scope: principal what one of them reads restricts all", a.Keys[0].ID)
	}
}
