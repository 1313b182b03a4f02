package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/match"
)

// Values of the enumerated fields.
const (
	clientToServer = "client_to_server"
	serverToClient = "server_to_client"
	modeEnforce    = "enforce"
)

// ModeObserve is the value of RuleConfig.Mode with which a rule is only recorded.
const ModeObserve = "observe"

// Validate reports the errors of the section (gateway specification, Startup validation).
func (c *Config) Validate(at diag.At) {
	if a := c.DefaultAction; a != nil && *a != "allow" && *a != "deny" {
		at.Field("default_action").Hint("use allow or deny, or leave the key out").
			Errorf("enum", "default_action is %q", *a)
	}
	if a := c.DenyAs; a != "" && a != DenyAsHTTP && a != DenyAsToolError {
		at.Field("deny_as").Hint("use %s or %s", DenyAsHTTP, DenyAsToolError).Errorf("enum", "deny_as is %q", a)
	}
	seen := make(map[string]int, len(c.Rules))
	for i := range c.Rules {
		r, at := &c.Rules[i], at.Field("rules").Index(i)
		switch first, dup := seen[r.ID]; {
		case r.ID == "":
			at.Field("id").Hint("give the rule an id, as in deny-deletes").Errorf("required", "the rule has no id")
		case dup:
			at.Field("id").Hint("rules[%d] has it too; ids must be unique", first).
				Errorf("duplicate", "the id %q is used twice", r.ID)
		case r.ID == DefaultDenyID:
			at.Field("id").Hint("choose another id").
				Errorf("reserved", "the id %q is reserved for the default action in audit records", r.ID)
		default:
			seen[r.ID] = i
		}
		r.validate(at)
	}
}

// CodeUnknownGuardrail is the code of the findings of [Config.CheckGuardrails].
const CodeUnknownGuardrail = "unknown-guardrail"

// CheckGuardrails reports rules whose guardrail is not defined.
func (c *Config) CheckGuardrails(at diag.At, names []string) {
	for i := range c.Rules {
		g := c.Rules[i].Guardrail
		if g == nil || *g == "" || slices.Contains(names, *g) {
			continue
		}
		at := at.Field("rules").Index(i).Field("guardrail")
		if len(names) == 0 {
			at = at.Hint("define it under guardrails")
		} else {
			at = at.Hint("defined are: %s", strings.Join(names, ", "))
		}
		at.Errorf(CodeUnknownGuardrail, "no guardrail is named %q", *g)
	}
}

// CodeUnknownUpstream is the code for a name that no upstream has.
const CodeUnknownUpstream = "unknown-upstream"

// CheckUpstreams reports rules for upstreams that are not defined.
func (c *Config) CheckUpstreams(at diag.At, names []string) {
	for i := range c.Rules {
		w := c.Rules[i].When
		if w == nil {
			continue
		}
		for j, name := range w.Upstream {
			if name != "" && !slices.Contains(names, name) {
				at.Field("rules").Index(i).Field("when").Field("upstream").Index(j).Hint("defined are: %s", strings.Join(names, ", ")).
					Errorf(CodeUnknownUpstream, "no upstream is named %q", name)
			}
		}
	}
}

// validate reports the errors of one rule.
func (r *RuleConfig) validate(at diag.At) {
	plainText(at.Field("message"), "message", r.Message)
	if !slices.Contains(actionNames[:], r.Action) {
		if hint := at.Field("action").Hint("use one of %s", strings.Join(actionNames[:], ", ")); r.Action == "" {
			hint.Errorf("required", "the rule has no action")
		} else {
			hint.Errorf("enum", "action is %q", r.Action)
		}
	}
	if r.When == nil {
		at.Field("when").Hint("write when: {} for a rule that matches every client-to-server message").
			Errorf("required", "the rule has no when")
	} else {
		r.When.validate(at.Field("when"))
	}
	if r.Mode != "" && r.Mode != modeEnforce && r.Mode != ModeObserve {
		at.Field("mode").Hint("use %s or %s, or leave the key out", modeEnforce, ModeObserve).
			Errorf("enum", "mode is %q", r.Mode)
	}
	r.validateRedact(at)
	r.validateRate(at)
	r.validateApproval(at)
	r.validateFlow(at)
	switch {
	case r.Action == Guardrail.String() && (r.Guardrail == nil || *r.Guardrail == ""):
		at.Field("guardrail").Hint("name one of the endpoints under guardrails").
			Errorf("required", "a guardrail rule has no guardrail")
	case r.Action != Guardrail.String() && r.Guardrail != nil:
		at.Field("guardrail").Hint("remove it, or make the action guardrail").
			Errorf("unused", "guardrail is only for the guardrail action")
	}
	switch {
	case !r.Frames:
	case r.Action != Guardrail.String():
		at.Field("frames").Hint("remove it, or make the action guardrail").
			Errorf("unused", "frames is only for the guardrail action")
	case r.When != nil && (r.When.Direction == nil || *r.When.Direction == clientToServer):
		at.Field("frames").Hint("add direction: %s to when", serverToClient).
			Errorf("unused", "a client sends no frames")
	}
}

// validateRedact reports the errors in the substitutions of a rule.
func (r *RuleConfig) validateRedact(at diag.At) {
	if r.Action == Redact.String() && len(r.Redact) == 0 {
		at.Field("redact").Hint("list at least one regex with its replacement").
			Errorf("required", "a redact rule has no substitutions")
	}
	if r.Action != Redact.String() && r.Redact != nil {
		at.Field("redact").Hint("remove it, or make the action redact").
			Errorf("unused", "redact is only for the redact action")
	}
	for i, sub := range r.Redact {
		at := at.Field("redact").Index(i)
		if sub.JSONPath != nil {
			at.Field("jsonpath").Hint("use regex").Errorf("reserved", "jsonpath is reserved and not supported")
		}
		if sub.Regex == "" {
			if sub.JSONPath == nil {
				at.Field("regex").Errorf("required", "the substitution has no regex")
			}
			continue
		}
		c, err := compileSubstitution(sub)
		if err != nil {
			at.Field("regex").Hint("the syntax is RE2").Errorf("regex", "%v", err)
			continue
		}
		for _, name := range c.unknown {
			at.Field("replacement").Hint("write ${1}x for group 1 followed by x, and $$ for a dollar sign").
				Warnf("template", "the regex has no group %q, so $%s stands for nothing", name, name)
		}
	}
}

// validateRate reports the errors in the rate of a rule.
func (r *RuleConfig) validateRate(at diag.At) {
	rate, burst := at.Field("tokens_per_second"), at.Field("burst")
	if r.Action != RateLimit.String() {
		if r.TokensPerSecond != nil {
			rate.Hint("remove it, or make the action rate_limit").
				Errorf("unused", "tokens_per_second is only for the rate_limit action")
		}
		if r.Burst != nil {
			burst.Hint("remove it, or make the action rate_limit").
				Errorf("unused", "burst is only for the rate_limit action")
		}
		return
	}
	switch t := r.TokensPerSecond; {
	case t == nil:
		rate.Hint("give the refill rate, as in 0.5 for one call in two seconds").
			Errorf("required", "a rate_limit rule has no tokens_per_second")
	case !(*t > 0) || math.IsInf(*t, 0):
		rate.Hint("use a number above 0").Errorf("range", "tokens_per_second is %v", *t)
	}
	if b := r.Burst; b != nil && (*b < 1 || *b > math.MaxInt32) {
		burst.Hint("use 1 or more").Errorf("range", "burst is %d", *b)
	}
}

// validate reports the errors in the conditions of a rule.
func (w *When) validate(at diag.At) {
	tool := w.Tool()
	matchers := tool.Keys()
	if len(matchers) > 1 {
		at.Hint("keep one, or write several rules").
			Errorf("matcher", "at most one tool matcher is allowed, found %s", strings.Join(matchers, ", "))
	}
	for _, name := range matchers {
		w.validateMatcher(at.Field(name), name)
	}
	if d := w.Direction; d != nil && *d != "" && *d != clientToServer && *d != serverToClient {
		at.Field("direction").Hint("use %s or %s, or an empty string for both", clientToServer, serverToClient).
			Errorf("enum", "direction is %q", *d)
	}
	switch {
	case w.ResultType == "":
	case w.ResultType != mcp.ResultInputRequired:
		at.Field("result_type").Hint("the only value is %s", mcp.ResultInputRequired).
			Errorf("enum", "result_type is %q", w.ResultType)
	case w.Direction == nil || *w.Direction != serverToClient:
		at.Field("result_type").Hint("add direction: %s", serverToClient).
			Errorf("direction", "result_type needs direction: %s", serverToClient)
	case w.Method != "":
		at.Field("method").Hint("remove method: responses have no method").
			Warnf("never-matches", "a rule with result_type and method matches nothing")
	}
	w.validateReach(at, matchers)
	w.validateArguments(at)
	if w.Upstream != nil && len(w.Upstream) == 0 {
		at.Field("upstream").Hint("remove it to match any upstream").Errorf("required", "upstream is empty")
	}
	notEmpty(at.Field("upstream"), w.Upstream)
	w.validateRestores(at)
	if w.Claims != nil {
		w.Claims.Validate(at.Field("claims"))
	}
}

// Validate reports the errors of the conditions on an identity.
func (c *ClaimsConfig) Validate(at diag.At) {
	notEmpty(at.Field("groups"), c.Groups)
	notEmpty(at.Field("groups_in"), c.GroupsIn)
	notEmpty(at.Field("scopes_in"), c.ScopesIn)
	notEmpty(at.Field("subject_in"), c.SubjectIn)
}

// validateArguments reports the errors of the conditions on arguments.
func (w *When) validateArguments(at diag.At) {
	if w.Arguments == nil {
		return
	}
	if d := w.Direction; d != nil && *d != clientToServer {
		at.Field("arguments").Hint("remove arguments, or direction").
			Errorf("direction", "arguments are those of requests of a client")
	}
	if m := w.Method; m != "" && m != mcp.MethodToolsCall && m != mcp.MethodPromptsGet {
		at.Field("arguments").Hint("use method: tools/call or prompts/get, or remove method").
			Errorf("never-matches", "%s has no arguments", m)
	}
	for _, e := range arguments.Check(w.Arguments) {
		at := at.Field("arguments")
		if e.Pointer != "" || e.Key != "" {
			at = at.Field(e.Pointer)
		}
		if e.Not {
			at = at.Field("not")
		}
		if e.Key != "" {
			at = at.Field(e.Key)
		}
		at.Hint("%s", e.Hint).Errorf("argument", "%s", e.Message)
	}
}

// validateRestores reports the errors of the condition on values that were put back.
func (w *When) validateRestores(at diag.At) {
	if w.Restores == nil {
		return
	}
	known := detect.Entities()
	if len(w.Restores) == 0 {
		at.Field("restores").Hint("list entities, as in [EMAIL]").Errorf("required", "restores is empty")
	}
	for i, e := range w.Restores {
		if !slices.Contains(known, detect.Entity(e)) {
			at.Field("restores").Index(i).Hint("known are: %s", strings.Trim(fmt.Sprint(known), "[]")).Errorf("enum", "no entity is named %q", e)
		}
	}
	if d := w.Direction; d != nil && *d != clientToServer {
		at.Field("restores").Hint("remove restores, or direction").
			Errorf("direction", "values are put back into requests of a client")
	}
}

// validateMatcher reports the errors of one tool matcher. An empty one is an error, because read
// as absent it would match every tool.
func (w *When) validateMatcher(at diag.At, key string) {
	const advice = "remove it to match any tool, or write tool_name: \"*\""
	switch key {
	case "tool_name":
		if *w.ToolName == "" {
			at.Hint(advice).Errorf("required", "tool_name is empty")
		}
	case "tool_prefix":
		if *w.ToolPrefix == "" {
			at.Hint(advice).Errorf("required", "tool_prefix is empty")
		}
	case "tool_glob":
		if *w.ToolGlob == "" {
			at.Hint(advice).Errorf("required", "tool_glob is empty")
		} else if err := match.CheckGlob(*w.ToolGlob); err != nil {
			at.Hint("write [!a-z] for a class that excludes, and \\ before a literal character").
				Errorf("glob", "%v", err)
		}
	case "tool_regex":
		if *w.ToolRegex == "" {
			at.Hint(advice).Errorf("required", "tool_regex is empty")
		} else if err := match.CheckRegex(*w.ToolRegex); err != nil {
			at.Hint("the syntax is RE2").Errorf("regex", "%v", err)
		}
	case "tool_name_in":
		if len(w.ToolNameIn) == 0 {
			at.Hint(advice).Errorf("required", "tool_name_in is empty")
		}
		notEmpty(at, w.ToolNameIn)
		for i, name := range w.ToolNameIn {
			if name == match.Any {
				at.Index(i).Hint("use tool_name: \"*\" to match any").
					Warnf("literal-star", "in tool_name_in a * is the name of a tool, not any tool")
			}
		}
	}
}

// validateReach warns of conditions that exclude each other.
func (w *When) validateReach(at diag.At, matchers []string) {
	if len(matchers) != 1 || w.ToolName != nil && *w.ToolName == match.Any {
		return
	}
	if w.Method != "" && w.Method != mcp.MethodToolsCall {
		at.Field("method").Hint("remove %s, or the method", matchers[0]).
			Warnf("never-matches", "tool matchers match tools/call only, so the rule matches nothing")
	} else if w.Direction != nil && *w.Direction == serverToClient {
		at.Field("direction").Hint("remove %s and use method", matchers[0]).
			Warnf("never-matches", "messages of a server have no tool name, so the rule matches nothing")
	}
}

// notEmpty reports empty strings in a list.
func notEmpty(at diag.At, list []string) {
	for i, s := range list {
		if s == "" {
			at.Index(i).Hint("remove it").Errorf("required", "the entry is empty")
		}
	}
}
