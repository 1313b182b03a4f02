package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
)

// Cases is a file of test cases for the rules of a configuration.
type Cases struct {
	Cases []Case `yaml:"cases"`
}

// Case is one request and its expected result.
type Case struct {
	// Name describes the case; it must be unique.
	Name string `yaml:"name"`
	// Caller is the sender. If absent, it is a caller without key and token.
	Caller CallerSpec `yaml:"caller"`
	// After are calls that the same caller made before, in order. Their answers set labels
	// (data_flow.labels); a call that is denied sets none. A result is the answer, for labels that
	// depend on it.
	After []RequestSpec `yaml:"after"`
	// Request is the message.
	Request RequestSpec `yaml:"request"`
	// Expect is the expected result; absent fields are not checked.
	Expect Expectation `yaml:"expect"`
}

// CallerSpec describes a caller.
type CallerSpec struct {
	// Key is the id of the API key that the caller presents.
	Key string `yaml:"key"`
	// Subject, Groups and Scopes are claims of the caller's OAuth token; the caller
	// has a token if any of them is set.
	Subject string   `yaml:"subject"`
	Groups  []string `yaml:"groups"`
	Scopes  []string `yaml:"scopes"`
	// Unreadable are claims that the token has in a form that cannot be read, or only refers
	// to: groups, scopes or subject.
	Unreadable []string `yaml:"unreadable"`
}

// claims returns the identity for rules, nil for callers without a token.
func (c *CallerSpec) claims() *policy.Claims {
	if c.Subject == "" && c.Groups == nil && c.Scopes == nil && c.Unreadable == nil {
		return nil
	}
	claims := &policy.Claims{Subject: c.Subject, Groups: c.Groups, Scopes: c.Scopes}
	for _, name := range c.Unreadable {
		claims.Unreadable.Add(name)
	}
	return claims
}

// RequestSpec describes a message.
type RequestSpec struct {
	// Tool is the tool of a tools/call.
	Tool string `yaml:"tool"`
	// Method is any other method.
	Method string `yaml:"method"`
	// Direction is client_to_server (the default) or server_to_client.
	Direction string `yaml:"direction"`
	// ResultType is the result type of a response.
	ResultType string `yaml:"result_type"`
	// Upstream is the upstream that the message is routed to, or comes from, for
	// rules with upstream; if absent, routes and prefixes select it.
	Upstream string `yaml:"upstream"`
	// Restores are the entities of values that were put back in place of tokens, for rules
	// with restores.
	Restores []string `yaml:"restores"`
	// Arguments of the tool, Params of a method, Result of a response.
	Arguments config.JSON `yaml:"arguments"`
	Params    config.JSON `yaml:"params"`
	Result    config.JSON `yaml:"result"`
}

// Expectation is the expected result of a message.
type Expectation struct {
	// Action is the action of the decision: allow, deny, redact, rate_limit,
	// strip_app or guardrail. The default action is allow or deny.
	Action string `yaml:"action"`
	// Approval is required for a call that passes only after a person has granted it. If absent or none,
	// the case fails for such a call.
	Approval string `yaml:"approval"`
	// Rule is the id of the deciding rule, default_deny, or empty for the default
	// that allows.
	Rule *string `yaml:"rule"`
	// Upstream is the upstream that the message is routed to; empty for none.
	Upstream *string `yaml:"upstream"`
	// Observed are the rules in mode observe that match before the decision.
	Observed []string `yaml:"observed"`
	// Arguments, Params and Result are the parts of the forwarded message, after
	// redaction.
	Arguments config.JSON `yaml:"arguments"`
	Params    config.JSON `yaml:"params"`
	Result    config.JSON `yaml:"result"`
}

// Validate reports the errors of the file.
func (c *Cases) Validate(at diag.At) {
	if len(c.Cases) == 0 {
		at.Field("cases").Hint("list at least one, with name, request and expect").Errorf("required", "there are no cases")
	}
	names := map[string]int{}
	for i := range c.Cases {
		k, at := &c.Cases[i], at.Field("cases").Index(i)
		if k.Name == "" {
			at.Field("name").Errorf("required", "the case has no name")
		} else if first, dup := names[k.Name]; dup {
			at.Field("name").Errorf("duplicate", "the name %q is already used by cases[%d]", k.Name, first)
		} else {
			names[k.Name] = i
		}
		if k.Caller.Key != "" && k.Caller.claims() != nil {
			at.Field("caller").Hint("with key and token together the token is the identity").Errorf("caller", "give a key, or the claims of a token")
		}
		for j, name := range k.Caller.Unreadable {
			if !new(policy.Unreadable).Add(name) {
				at.Field("caller").Field("unreadable").Index(j).Hint("use groups, scopes or subject").Errorf("enum", "unknown value %q", name)
			}
		}
		for j := range k.After {
			call, at := k.After[j].call(), at.Field("after").Index(j)
			if call.validate(at); call.Direction != "" && call.Direction != policy.ClientToServer.String() {
				at.Field("direction").Hint("remove it").Errorf("direction", "a call that was made before is one of the client")
			}
		}
		k.Request.validate(at.Field("request"))
		k.Expect.validate(at.Field("expect"))
	}
}

func (r *RequestSpec) validate(at diag.At) {
	if _, ok := direction(r.Direction); !ok {
		at.Field("direction").Hint("use client_to_server or server_to_client").Errorf("enum", "direction is %q", r.Direction)
		return
	}
	body, err := r.encode()
	if err != nil {
		at.Errorf("request", "%v", err)
		return
	}
	var m mcp.Message
	if _, err := mcp.ScanReplacing(body, &m); err != nil {
		at.Errorf("request", "the gateway would refuse the message: %v", err)
	}
}

func (e *Expectation) validate(at diag.At) {
	if actions := policy.ActionNames(); e.Action != "" && !slices.Contains(actions, e.Action) {
		at.Field("action").Hint("use one of %s", strings.Join(actions, ", ")).Errorf("enum", "action is %q", e.Action)
	}
	if e.Approval != "" && e.Approval != approvalNone && e.Approval != plane.ApprovalRequired {
		at.Field("approval").Hint("use required or none").Errorf("enum", "approval is %q", e.Approval)
	}
	if e.Action == "" && e.Approval == "" && e.Rule == nil && e.Upstream == nil && e.Observed == nil && e.Arguments == nil && e.Params == nil && e.Result == nil {
		at.Hint("as in expect: {action: deny, rule: no-deletes}").Errorf("required", "the case expects nothing")
	}
}

// direction parses a direction; empty is the default.
func direction(s string) (policy.Direction, bool) {
	switch s {
	case "", policy.ClientToServer.String():
		return policy.ClientToServer, true
	case policy.ServerToClient.String():
		return policy.ServerToClient, true
	}
	return 0, false
}

func (r *RequestSpec) encode() ([]byte, error) {
	d, _ := direction(r.Direction)
	m := Message{Tool: r.Tool, Method: r.Method, Direction: d, ResultType: r.ResultType,
		Arguments: r.Arguments, Params: r.Params, Result: r.Result}
	return m.Encode()
}

// CaseResult is the result of a case.
type CaseResult struct {
	Case *Case
	// Failures is empty if all expectations were met.
	Failures []Failure
	// Answer is nil if the case could not be evaluated.
	Answer *Answer
}

// Failure is one expectation that was not met.
type Failure struct {
	// What is the field of expect.
	What string
	// Want and Got are texts for people; Note has further details, or is empty.
	Want, Got, Note string
}

// OK reports whether all expectations were met.
func (r *CaseResult) OK() bool { return len(r.Failures) == 0 }

// Run runs a case.
func (e *Engine) Run(c *Case) CaseResult {
	out := CaseResult{Case: c}
	fail := func(what, want, got, note string) {
		out.Failures = append(out.Failures, Failure{what, want, got, note})
	}
	if c.Caller.Key != "" && !e.KnowsKey(c.Caller.Key) {
		fail("caller", "a key of auth.keys", fmt.Sprintf("%q", c.Caller.Key), "no key has this id")
		return out
	}
	d, _ := direction(c.Request.Direction)
	labels, err := e.After(c.After, c.Caller.claims())
	if err != nil {
		fail("after", "calls", err.Error(), "")
		return out
	}
	body, err := c.Request.encode()
	if err == nil {
		out.Answer, err = e.Ask(body, d, c.Caller.claims(), Given{Upstream: c.Request.Upstream, Restored: c.Request.Restores, Labels: labels})
	}
	if err != nil {
		fail("request", "a message", err.Error(), "")
		return out
	}
	a, want := out.Answer, &c.Expect
	if got := a.Decision.Action.String(); want.Action != "" && want.Action != got {
		fail("action", want.Action, got, "")
	}
	if got := approvalOf(&a.Decision); cmp.Or(want.Approval, approvalNone) != got {
		fail("approval", cmp.Or(want.Approval, approvalNone), got, "")
	}
	if want.Rule != nil && *want.Rule != a.Decision.RuleID {
		note := ""
		if *want.Rule != "" && *want.Rule != policy.DefaultDenyID && !slices.Contains(e.rules.Order(), *want.Rule) {
			note = "no rule has that id"
		}
		fail("rule", ruleName(*want.Rule), ruleName(a.Decision.RuleID), note)
	}
	if want.Upstream != nil && *want.Upstream != a.Route.Upstream {
		fail("upstream", orNone(*want.Upstream), orNone(a.Route.Upstream), a.Route.Reason)
	}
	if want.Observed != nil {
		var got []string
		for _, r := range a.Observed {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want.Observed) && len(got)+len(want.Observed) > 0 {
			fail("observed", orNone(strings.Join(want.Observed, ", ")), orNone(strings.Join(got, ", ")), "")
		}
	}
	for _, p := range []struct {
		name string
		want config.JSON
	}{{"arguments", want.Arguments}, {"params", want.Params}, {"result", want.Result}} {
		if p.want != nil {
			e.compare(p.name, p.want, a, fail)
		}
	}
	return out
}

const approvalNone = "none"

// approvalOf returns required for a decision that lets a call pass only with a grant, else none.
func approvalOf(d *policy.Decision) string {
	if d.Approval() != nil {
		return plane.ApprovalRequired
	}
	return approvalNone
}

// compare checks a part of the forwarded message.
func (e *Engine) compare(name string, want []byte, a *Answer, fail func(what, want, got, note string)) {
	switch {
	case a.RedactError != nil:
		fail(name, string(want), "nothing", a.RedactError.Error())
	case a.Body == nil:
		fail(name, string(want), "nothing", "the message is not forwarded")
	default:
		got, err := part(a.Body, name)
		if err != nil || !same(got, want) {
			fail(name, string(want), orNone(string(got)), "")
		}
	}
}

func ruleName(id string) string {
	if id == "" {
		return "no rule"
	}
	return fmt.Sprintf("%q", id)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Coverage is the set of rules that some cases reached.
type Coverage struct {
	// Rules are the ids of all rules; Missed are the rules that decided no case and
	// were observed in none. Both are in the order of the rules.
	Rules, Missed []string
}

// Percent is the percentage of rules that were reached; 100 without rules.
func (c Coverage) Percent() float64 {
	if len(c.Rules) == 0 {
		return 100
	}
	return 100 * float64(len(c.Rules)-len(c.Missed)) / float64(len(c.Rules))
}

// Cover returns the coverage of results.
func (e *Engine) Cover(results []CaseResult) Coverage {
	reached := map[string]bool{}
	for _, r := range results {
		if r.Answer == nil {
			continue
		}
		reached[r.Answer.Decision.RuleID] = true
		for _, o := range r.Answer.Observed {
			reached[o.ID] = true
		}
	}
	c := Coverage{Rules: e.rules.Order()}
	for _, id := range c.Rules {
		if !reached[id] {
			c.Missed = append(c.Missed, id)
		}
	}
	return c
}
