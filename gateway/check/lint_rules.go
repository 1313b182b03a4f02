package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/upstream"
)

// The two directions of messages, as indexes.
const (
	up   = int(policy.ClientToServer)
	down = int(policy.ServerToClient)
)

// rule is a rule with the sets of messages that it matches.
type rule struct {
	*policy.RuleConfig
	index int
	ways  [2]bool
	// tools is nil without a tool matcher, and for tool_name: "*", because such a rule also
	// matches other methods than tools/call.
	tools         *nameSet
	matcher       string // the key of the tool matcher
	claims        *policy.ClaimsConfig
	meets         func(*policy.Claims) bool // whether a caller, nil for one without a token, meets the claims
	inputRequired bool
}

// readRules returns the rules whose conditions are valid; start-up's validation reports errors in
// the others.
func readRules(c *policy.Config) []rule {
	var out []rule
	for i := range c.Rules {
		if r, ok := readRule(&c.Rules[i], i); ok {
			out = append(out, r)
		}
	}
	return out
}

func readRule(c *policy.RuleConfig, i int) (r rule, ok bool) {
	w := c.When
	if w == nil {
		return r, false
	}
	r = rule{RuleConfig: c, index: i, inputRequired: w.ResultType != ""}
	switch d := w.Direction; {
	case d == nil || *d == policy.ClientToServer.String():
		r.ways[up] = true
	case *d == policy.ServerToClient.String():
		r.ways[down] = true
	case *d == "":
		r.ways = [2]bool{true, true}
	default:
		return r, false
	}
	if cl := w.Claims; cl != nil && len(cl.Groups)+len(cl.GroupsIn)+len(cl.ScopesIn)+len(cl.SubjectIn) > 0 {
		r.claims = cl
	}
	r.meets = r.claims.Matcher(r.permits())
	var err error
	tool := w.Tool()
	if r.tools, r.matcher, err = namesOf(&tool); tool.IsAny() {
		r.tools = nil
	}
	return r, err == nil
}

// permits reports whether the rule only permits: it has no approval.
func (r *rule) permits() bool { return r.Action == policy.Allow.String() && r.Approval == nil }

// route is a route with the set of tools that it matches.
type route struct {
	*upstream.Route
	index   int
	tools   *nameSet
	matcher string
}

// readRoutes returns the routes whose matchers are valid.
func readRoutes(list []upstream.Route) []route {
	var out []route
	for i := range list {
		m, r := &list[i].Match, route{Route: &list[i], index: i}
		var err error
		tool := m.Tool()
		r.tools, r.matcher, err = namesOf(&tool)
		if r.tools != nil && err == nil {
			out = append(out, r)
		}
	}
	return out
}

// takesMethod reports whether the rule matches every message with a method in one direction,
// whatever the tool and the caller.
func (r *rule) takesMethod(way int, method string) bool {
	if !r.ways[way] || r.inputRequired || r.When.Upstream != nil || r.When.Restores != nil || r.When.URIPrefix != nil || r.When.Method != "" && r.When.Method != method || r.Approval != nil && !policy.Approvable(method) {
		return false
	}
	return r.tools == nil || way == up && method == mcp.MethodToolsCall
}

// quoted returns the id of the rule of a finding.
func (r *rule) quoted() string { return strconv.Quote(r.ID) }

// name returns the text for another rule in a finding: its id and line.
func (p *pass) name(r *rule) string {
	return fmt.Sprintf("%q (line %d)", r.ID, p.line(p.ruleAt(r.index).Field("id")))
}

// names lists rules in a finding.
func (p *pass) names(rules []*rule) string {
	const most = 5
	var list []string
	for i, r := range rules {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(rules)-most))
			break
		}
		list = append(list, p.name(r))
	}
	return join(list)
}

// join joins with commas and a last "and".
func join(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// plural chooses singular or plural.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// defaultActionOmitted warns when the file does not show what happens to messages that no rule
// matches.
func defaultActionOmitted(p *pass) {
	if p.file.Policy.DefaultAction == nil && p.doc.Given("policy") {
		p.warn(p.root().Field("policy").Field("default_action"), "write default_action: deny, or allow if that is meant",
			"default_action is left out: tool calls that no rule matches are denied, all other methods pass")
	}
}

// guarded are the methods that need a rule of their own under default deny (gateway
// specification, Default-deny discovery allowlist).
var guarded = [...]string{mcp.MethodListen, mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel}

// catchAllAllow warns of rules that let every message pass under default deny, and so allow
// methods that were not intended.
func catchAllAllow(p *pass) {
	if a := p.file.Policy.DefaultAction; a == nil || *a != "deny" {
		return
	}
	for i := range p.rules {
		r := &p.rules[i]
		if !r.decides() || r.Action == policy.Deny.String() || r.Approval != nil || !r.ways[up] || r.tools != nil || r.narrows() || r.When.Method != "" {
			continue
		}
		var opened []string
		for _, m := range guarded {
			if v, _ := p.covered(r, []cell{{way: up, method: m}}, p.before(r)); v == coversNotAll {
				opened = append(opened, m)
			}
		}
		if len(opened) > 0 {
			p.warn(p.ruleAt(r.index).Field("id"), `for tools alone write tool_glob: "*", and give other methods rules of their own`,
				"rule %s lets every method pass although default_action is deny, including %s", r.quoted(), join(opened))
		}
	}
}

// before returns the rules above a rule that decide.
func (p *pass) before(r *rule) []*rule {
	var out []*rule
	for i := range p.rules {
		if a := &p.rules[i]; a.index < r.index && a.decides() {
			out = append(out, a)
		}
	}
	return out
}

// after returns the rules below a rule that decide.
func (p *pass) after(r *rule) []*rule {
	var out []*rule
	for i := range p.rules {
		if a := &p.rules[i]; a.index > r.index && a.decides() {
			out = append(out, a)
		}
	}
	return out
}

// decides reports whether the rule ends the evaluation when it matches.
func (r *rule) decides() bool { return r.Mode != "observe" }

// catchAllDeny warns of rules that deny every message below rules that let some pass: a client's
// answer to a server request has no method, so no rule above lets it pass. default_action never
// denies answers.
func catchAllDeny(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.Deny.String() || !r.decides() || !r.ways[up] || r.tools != nil || r.narrows() || r.When.Method != "" || r.inputRequired {
			continue
		}
		before := p.before(r)
		passes := slices.ContainsFunc(before, func(a *rule) bool { return a.ways[up] && a.Action != policy.Deny.String() })
		if v, _ := p.covered(r, []cell{{way: up}}, before); !passes || v != coversNotAll {
			continue // no call passes that could cause a server request, or answers are decided above
		}
		p.warn(p.ruleAt(r.index).Field("id"), "use default_action: deny instead, which lets answers pass",
			"rule %s also stops clients' answers to elicitation, sampling and roots requests of servers, which get an error in place of the answer", r.quoted())
	}
}

// claimsAllowWithoutDefaultDeny warns of rules that allow some callers what all others may do as
// well: claims restrict only if a later rule or the default denies (gateway specification,
// when.claims).
func claimsAllowWithoutDefaultDeny(p *pass) {
	action := p.file.Policy.DefaultAction
	if action != nil && *action == "deny" {
		return
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.claims == nil || !r.decides() || !r.permits() || !r.ways[up] {
			continue
		}
		var cells []cell
		for _, c := range r.cells() {
			// Without default_action, tool calls are denied.
			if c.way == up && (action != nil || c.tools == nil) {
				cells = append(cells, c)
			}
		}
		if len(cells) == 0 {
			continue
		}
		everyone := *r
		everyone.claims = nil
		var denies []*rule
		for _, a := range p.after(r) {
			if a.Action == policy.Deny.String() {
				denies = append(denies, a)
			}
		}
		if v, _ := p.covered(&everyone, cells, denies); v == coversNotAll {
			p.warn(p.ruleAt(r.index).Field("when").Field("claims"), "set default_action: deny, or deny the same below without claims",
				"rule %s allows some callers what all others may do as well: a caller without the claims passes by the default", r.quoted())
		}
	}
}

// needlessDiscoveryRule warns of allow rules for methods that pass under default deny anyway,
// because removing such a rule would not deny them.
func needlessDiscoveryRule(p *pass) {
	if a := p.file.Policy.DefaultAction; a == nil || *a != "deny" {
		return
	}
	for i := range p.rules {
		r := &p.rules[i]
		m := r.When.Method
		if !r.permits() || !r.decides() || !mcp.Discovery(m) || !r.ways[up] || r.tools != nil {
			continue
		}
		stopped := slices.ContainsFunc(p.after(r), func(a *rule) bool {
			return !a.permits() && a.takesMethod(up, m)
		})
		if !stopped {
			p.warn(p.ruleAt(r.index).Field("when").Field("method"), "remove the rule; to close the method deny it",
				"rule %s changes nothing: %s passes under default_action: deny without a rule", r.quoted(), m)
		}
	}
}

// observingRule warns of rules in mode observe, which look like protection.
func observingRule(p *pass) {
	for i := range p.rules {
		if r := &p.rules[i]; !r.decides() {
			p.warn(p.ruleAt(r.index).Field("mode"), "remove mode: observe when the audit lines show what you want",
				"rule %s is not enforced: the rules below decide about what it matches", r.quoted())
		}
	}
}

const codeGovernanceOff = "governance-off"

// governanceOff warns of a control plane whose policies nobody enforces here. enabled: false is a
// choice and no mistake.
func governanceOff(p *pass) {
	c := &p.file.ControlPlane
	if len(c.URL) == 0 || c.Governance.Enabled != nil {
		return
	}
	p.warn(p.root().Field("control_plane"), "add governance: {enabled: true}, or governance: {enabled: false} if this gateway only reports traces",
		"a control plane is configured, and its policies are not enforced")
}

// directionMismatch warns of rules with a method that is never sent in the direction of the rule.
func directionMismatch(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		by := up
		switch mcp.MethodOf(r.When.Method).Sender {
		case mcp.Either:
			continue
		case mcp.Server:
			by = down
		}
		if r.ways[by] {
			continue
		}
		at := p.ruleAt(r.index).Field("when").Field("method")
		if by == down {
			p.warn(at, "add direction: server_to_client", "rule %s matches nothing: servers send %s, and a rule without a direction applies to messages of clients", r.quoted(), r.When.Method)
		} else {
			p.warn(at, "remove the direction", "rule %s matches nothing: clients send %s, servers do not", r.quoted(), r.When.Method)
		}
	}
}

// unknownMethod warns of methods that differ slightly from a method of the protocol: matching is
// exact, so a misspelled method matches nothing. Other unknown methods may be extensions.
func unknownMethod(p *pass) {
	meant := make(map[string]string)
	for _, m := range mcp.Methods() {
		meant[gist(m.Name)] = m.Name
	}
	for i := range p.rules {
		r := &p.rules[i]
		if m, ok := meant[gist(r.When.Method)]; ok && r.When.Method != "" && mcp.MethodOf(r.When.Method).Name == "" {
			p.warn(p.ruleAt(r.index).Field("when").Field("method"), "write "+m,
				"rule %s: the protocol has no method %q", r.quoted(), r.When.Method)
		}
	}
}

// gist returns a method without case, separators and plurals.
func gist(method string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, method), "s", "")
}

// legacyMRTRMethod warns of rules on server requests of the legacy dialect without a rule on the
// input_required results that replace them in the 2026-07-28 dialect (gateway specification,
// Server-to-client frames).
func legacyMRTRMethod(p *pass) {
	if allowed := p.file.AllowedProtocolVersions; len(allowed) > 0 && !slices.Contains(allowed, "2026-07-28") {
		return
	}
	asks := cell{way: down, inputRequired: true}
	for i := range p.rules {
		if r := &p.rules[i]; r.decides() && r.takes(asks) != nil {
			return
		}
	}
	for i := range p.rules {
		r := &p.rules[i]
		switch r.When.Method {
		case mcp.MethodElicit, mcp.MethodSample, mcp.MethodRootsList:
			if r.ways[down] {
				p.warn(p.ruleAt(r.index).Field("when").Field("method"), "add a rule with direction: server_to_client and result_type: input_required, and keep both",
					"rule %s is for the legacy dialect only: under 2026-07-28 servers send results of type input_required instead", r.quoted())
			}
		}
	}
}
