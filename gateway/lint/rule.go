package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/nameset"
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
	tools         *nameset.Set
	matcher       string // the key of the tool matcher
	claims        *policy.ClaimsConfig
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
	var err error
	tool := w.Tool()
	if r.tools, r.matcher, err = nameset.Of(&tool); tool.IsAny() {
		r.tools = nil
	}
	return r, err == nil
}

// route is a route with the set of tools that it matches.
type route struct {
	*upstream.Route
	index   int
	tools   *nameset.Set
	matcher string
}

// readRoutes returns the routes whose matchers are valid.
func readRoutes(list []upstream.Route) []route {
	var out []route
	for i := range list {
		m, r := &list[i].Match, route{Route: &list[i], index: i}
		var err error
		tool := m.Tool()
		r.tools, r.matcher, err = nameset.Of(&tool)
		if r.tools != nil && err == nil {
			out = append(out, r)
		}
	}
	return out
}

// takesMethod reports whether the rule matches every message with a method in one direction,
// whatever the tool and the caller.
func (r *rule) takesMethod(way int, method string) bool {
	if !r.ways[way] || r.inputRequired || r.When.Upstream != nil || r.When.Method != "" && r.When.Method != method {
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

// holds reports whether an identity, nil for none, meets conditions, nil for none.
func holds(c *policy.ClaimsConfig, who *policy.Claims) bool {
	if c == nil {
		return true
	}
	if who == nil {
		return false
	}
	any := func(want, have []string) bool {
		return len(want) == 0 || slices.ContainsFunc(want, func(s string) bool { return slices.Contains(have, s) })
	}
	return any(c.GroupsIn, who.Groups) && any(c.ScopesIn, who.Scopes) && any(c.SubjectIn, []string{who.Subject}) &&
		!slices.ContainsFunc(c.Groups, func(g string) bool { return !slices.Contains(who.Groups, g) })
}
