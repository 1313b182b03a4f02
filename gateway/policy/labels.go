package policy

import (
	"fmt"
	"slices"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/match"
)

// labelRule holds the compiled conditions on the labels of the caller.
type labelRule struct {
	all, any           flow.Labels
	allNames, anyNames []string
}

// restricts reports whether an action only restricts what passes: rules with labels have no other, so
// that no label lets a caller do more.
func restricts(action string, approval bool) bool {
	return action == Deny.String() || action == RateLimit.String() || action == Allow.String() && approval
}

// newLabelRule compiles labels_all and labels_any of a rule; nil for neither. A label that is not
// declared is an error, because a rule without it would match more or less than was written.
func newLabelRule(r *Rule, w *When, names *flow.Names) (*labelRule, error) {
	if w.LabelsAll == nil && w.LabelsAny == nil {
		return nil, nil
	}
	if !restricts(r.Action.String(), r.Approval != nil) || r.direction != ClientToServer {
		return nil, fmt.Errorf("labels need direction: %s, and deny, rate_limit, or allow with approval", clientToServer)
	}
	l := &labelRule{all: names.Of(w.LabelsAll...), any: names.Of(w.LabelsAny...), allNames: w.LabelsAll, anyNames: w.LabelsAny}
	for _, list := range [][]string{w.LabelsAll, w.LabelsAny} {
		if list != nil && len(list) == 0 {
			return nil, fmt.Errorf("a list of labels is empty")
		}
		for _, name := range list {
			if names.Of(name) == 0 {
				return nil, fmt.Errorf("the label %q is not declared", name)
			}
		}
	}
	return l, nil
}

// match reports whether a caller with some labels meets the conditions.
func (l *labelRule) match(has flow.Labels) bool {
	return has.All(l.all) && (l.any == 0 || has.Any(l.any))
}

// misses describes the condition that a caller does not meet, "" when all are met. The labels of the
// caller are described by those that it lacks, because a rule knows only the names of its own.
func (l *labelRule) misses(has flow.Labels) string {
	switch {
	case !has.All(l.all):
		return "the caller does not have all labels of labels_all " + match.Brief(l.allNames)
	case !l.match(has):
		return "the caller has no label of labels_any " + match.Brief(l.anyNames)
	}
	return ""
}

// DecideFlow returns the rule by which labels of the caller restrict what a client sends about a call
// that the rules have judged already, such as an answer to a question of the server or an input of a
// task; nil if no label restricts it. q describes that call, with the labels of now: its method, tool,
// upstream, URI and claims, without arguments. Rules in mode observe are not considered.
//
// The order of the rules decides as it does for the call, so that the rule is nil where a rule without
// labels decided about the call. What is not known about the call restricts (fail closed): with an
// empty Method, with a tools/call without a tool, with an empty Upstream, or with a URI method without
// a URI, a rule with labels matches any; its conditions on arguments and on restored values always hold.
//
// A rule with the action deny, or with approval, denies the message, because an answer cannot wait for a
// person. For one with rate_limit the message takes a token of the bucket of the rule.
func (s *Set) DecideFlow(q *Request) *Rule {
	if q.Labels&s.labels == 0 {
		return nil
	}
	for _, r := range s.rules {
		switch {
		case r.Observe:
		case r.labels != nil:
			if r.mayRestrict(q) {
				return r
			}
		case r.arguments != nil, r.restores != nil, q.Method == "", r.uri != nil && q.URI == "":
			// Whether the rule decided about the call is not known.
		case r.matches(q):
			return nil
		}
	}
	return nil
}

// mayRestrict reports whether a rule with labels matches a call of which some parts may be unknown.
func (r *Rule) mayRestrict(q *Request) bool {
	return r.labels.match(q.Labels) &&
		(r.method == "" || q.Method == "" || r.method == q.Method) &&
		(r.Approval == nil || q.Method == "" || Approvable(q.Method)) &&
		(r.tool.Kind == match.Every || q.Method == "" || q.Method == mcp.MethodToolsCall && (!q.HasTool || r.tool.Match(q.Tool))) &&
		(r.upstreams == nil || q.Upstream == "" || slices.Contains(r.upstreams, q.Upstream)) &&
		(r.uri == nil || q.Method == "" || r.meetsURI(q)) &&
		(r.claims == nil || r.claims.match(q.Claims, false))
}

// uriRule holds the compiled uri_prefix.
type uriRule struct {
	prefix match.URIPrefix
	text   string
}

// newURIRule compiles the uri_prefix of a rule, nil for none.
func newURIRule(r *Rule, w *When) (*uriRule, error) {
	if w.URIPrefix == nil {
		return nil, nil
	}
	if r.direction != ClientToServer || r.tool.Kind != match.Every || r.method != "" && !slices.Contains(mcp.URIMethods, r.method) {
		return nil, fmt.Errorf("uri_prefix needs direction: %s, no tool matcher, and one of the methods %v", clientToServer, mcp.URIMethods)
	}
	prefix, err := match.CompileURI(*w.URIPrefix)
	if err != nil {
		return nil, fmt.Errorf("uri_prefix: %w", err)
	}
	return &uriRule{prefix: prefix, text: *w.URIPrefix}, nil
}

// match compares the URI of a request. A request without a URI that can be read is unclear; so is a
// template that may expand to a URI below the prefix, and to one beside it.
func (u *uriRule) match(q *Request) match.URIMatch {
	switch {
	case !slices.Contains(mcp.URIMethods, q.Method):
		return match.No
	case q.URI == "":
		return match.Unclear
	}
	if q.Template {
		return u.matchTemplate(q.URI)
	}
	return u.prefix.Match(q.URI)
}

// matchTemplate compares the URIs that a template can expand to, by its beginning up to the last whole
// segment before its first expression.
func (u *uriRule) matchTemplate(template string) match.URIMatch {
	literal, _, some := strings.Cut(template, "{")
	if !some {
		return u.prefix.Match(template)
	}
	literal = literal[:strings.LastIndexAny(literal, "/:")+1]
	if u.prefix.Match(literal) == match.Yes {
		return match.Yes
	}
	begins, err := match.CompileURI(literal)
	if err == nil && begins.Match(u.text) == match.No {
		return match.No
	}
	return match.Unclear
}

// meetsURI reports whether the URI that a client asks for meets the uri_prefix of the rule. A URI that
// has no single plain form meets that of rules that deny or ask for approval, and no other.
func (r *Rule) meetsURI(q *Request) bool {
	switch r.uri.match(q) {
	case match.Yes:
		return true
	case match.Unclear:
		if q.Template { // as with AnyArguments: what may pass is listed
			return r.Action != Deny
		}
		return r.Action == Deny || r.Approval != nil
	}
	return false
}

// missesURI describes why a request does not meet the uri_prefix of the rule.
func (r *Rule) missesURI(q *Request) string {
	switch {
	case !slices.Contains(mcp.URIMethods, q.Method):
		return "uri_prefix is for " + strings.Join(mcp.URIMethods, ", ")
	case r.uri.match(q) == match.Unclear:
		return "the URI has no single plain form, and only rules that deny or ask for approval match then"
	}
	return fmt.Sprintf("the URI %q is not below uri_prefix %q", q.URI, r.uri.text)
}

// validateFlow reports the errors of the conditions on labels and URIs of a rule.
func (r *RuleConfig) validateFlow(at diag.At) {
	w := r.When
	if w == nil {
		return
	}
	at = at.Field("when")
	down := w.Direction != nil && *w.Direction != clientToServer
	for _, list := range w.labels() {
		here := at.Field(list.key)
		if len(list.names) == 0 {
			here.Hint("remove it for any caller").Errorf("required", "%s is empty", list.key)
		}
		if !restricts(r.Action, r.Approval != nil) {
			here.Hint("use deny, rate_limit, or allow with approval").
				Errorf("action", "a label only restricts, so %s cannot be a condition of the action %s", list.key, r.Action)
		}
		if down {
			here.Hint("remove %s, or direction", list.key).Errorf("direction", "labels are those of the sender of a client's message")
		}
	}
	if w.URIPrefix == nil {
		return
	}
	here := at.Field("uri_prefix")
	if _, err := match.CompileURI(*w.URIPrefix); err != nil {
		here.Hint("write the beginning of an absolute URI, as in file:///srv/docs/").Errorf("uri", "%v", err)
	}
	if down {
		here.Hint("remove uri_prefix, or direction").Errorf("direction", "uri_prefix is for requests of a client")
	}
	if written := w.Tool(); len(written.Keys()) > 0 && !written.IsAny() {
		here.Hint("write two rules").Errorf("never-matches", "a call of a tool asks for no URI, so the rule matches nothing")
	}
	if w.Method != "" && !slices.Contains(mcp.URIMethods, w.Method) {
		at.Field("method").Hint("use one of %s, or remove method", strings.Join(mcp.URIMethods, ", ")).
			Errorf("never-matches", "%s asks for no URI, so the rule matches nothing", w.Method)
	}
}

// labelList is a condition on labels as it is written.
type labelList struct {
	key   string
	names []string
}

// labels returns the conditions on labels that are set.
func (w *When) labels() (lists []labelList) {
	if w.LabelsAll != nil {
		lists = append(lists, labelList{"labels_all", w.LabelsAll})
	}
	if w.LabelsAny != nil {
		lists = append(lists, labelList{"labels_any", w.LabelsAny})
	}
	return lists
}

// CodeUnknownLabel is the code of the findings of [Config.CheckLabels].
const CodeUnknownLabel = "unknown-label"

// CheckLabels reports rules with labels that data_flow does not declare.
func (c *Config) CheckLabels(at diag.At, declared *flow.Names) {
	for i := range c.Rules {
		if c.Rules[i].When == nil {
			continue
		}
		for _, list := range c.Rules[i].When.labels() {
			for j, name := range list.names {
				if declared.Of(name) != 0 {
					continue
				}
				hint := "declare it under data_flow.labels"
				if known := declared.List(); len(known) > 0 {
					hint = "declared are: " + strings.Join(known, ", ")
				}
				at.Field("rules").Index(i).Field("when").Field(list.key).Index(j).Hint("%s", hint).
					Errorf(CodeUnknownLabel, "no label is named %q", name)
			}
		}
	}
}
