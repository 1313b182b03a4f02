package policy

// Config is the policy section of the gateway file (gateway specification,
// policy).
type Config struct {
	// DefaultAction is allow or deny, for messages that no rule matches. Left
	// out, tool calls are denied and other methods pass.
	DefaultAction *string `yaml:"default_action"`
	// Rules are evaluated top-down; the first that matches applies.
	Rules []RuleConfig `yaml:"rules"`
	// FilterLists leaves out of the answers to tools/list what the rules deny this
	// caller to call, and empties resources/list, resources/templates/list and
	// prompts/list for callers who may not resources/read or prompts/get.
	FilterLists bool `yaml:"filter_lists"`
}

// RuleConfig is one rule.
type RuleConfig struct {
	// ID is unique within the list. It names the rule in audit, spans and
	// metrics.
	ID string `yaml:"id"`
	// Action is allow, deny, redact, rate_limit, strip_app or guardrail.
	Action string `yaml:"action"`
	// Mode is enforce (the default) or observe. An observing rule is never
	// enforced: what it would have done to a message stands in the audit line, and
	// evaluation goes on with the next rule.
	Mode string `yaml:"mode"`
	// When says what the rule matches. It must be there; an empty one matches
	// every client-to-server message.
	When *When `yaml:"when"`
	// Redact lists the substitutions of the redact action, in order.
	Redact []Substitution `yaml:"redact"`
	// TokensPerSecond is the refill rate of the rate_limit action, more than 0.
	TokensPerSecond *float64 `yaml:"tokens_per_second"`
	// Burst is the capacity of the bucket of the rate_limit action, at least 1
	// (default 1).
	Burst *int `yaml:"burst"`
	// Guardrail names the endpoint of the guardrail action.
	Guardrail *string `yaml:"guardrail"`
	// Frames lets a guardrail rule on what servers send ask for each frame of
	// an event stream too, one after the other. Without it such a rule acts on
	// plain JSON answers only, and frames that it matches pass.
	Frames bool `yaml:"frames"`
}

// When are the conditions of a rule; all that are given must hold. At most one
// of the five tool matchers may be given.
type When struct {
	// ToolName is the exact, case-sensitive name of a tool; * matches any
	// message, whatever its method.
	ToolName *string `yaml:"tool_name"`
	// ToolPrefix is what the name of the tool starts with.
	ToolPrefix *string `yaml:"tool_prefix"`
	// ToolGlob is a shell-style pattern: *, ? and character classes.
	ToolGlob *string `yaml:"tool_glob"`
	// ToolRegex is an RE2 expression that must match the whole name.
	ToolRegex *string `yaml:"tool_regex"`
	// ToolNameIn lists exact names.
	ToolNameIn []string `yaml:"tool_name_in"`
	// Method is the exact method; empty or left out matches any.
	Method string `yaml:"method"`
	// Direction is client_to_server (the default when left out),
	// server_to_client, or empty for both.
	Direction *string `yaml:"direction"`
	// ResultType is input_required, for answers with that resultType; it needs
	// direction server_to_client.
	ResultType string `yaml:"result_type"`
	// Claims are conditions on the verified OAuth identity of the caller.
	Claims *ClaimsConfig `yaml:"claims"`
}

// ClaimsConfig are conditions on a verified identity; all that are not empty
// must hold. Callers without a verified OAuth identity never match.
type ClaimsConfig struct {
	// Groups must all be groups of the caller.
	Groups []string `yaml:"groups"`
	// GroupsIn holds at least one group of the caller.
	GroupsIn []string `yaml:"groups_in"`
	// ScopesIn holds at least one scope of the caller.
	ScopesIn []string `yaml:"scopes_in"`
	// SubjectIn holds the caller's subject.
	SubjectIn []string `yaml:"subject_in"`
}

// empty reports whether the block constrains nothing.
func (c *ClaimsConfig) empty() bool {
	return c == nil || len(c.Groups)+len(c.GroupsIn)+len(c.ScopesIn)+len(c.SubjectIn) == 0
}

// Substitution is one entry of redact.
type Substitution struct {
	// Regex is the RE2 expression to look for.
	Regex string `yaml:"regex"`
	// Replacement is what to put there; $1, ${1} and ${name} stand for the
	// groups of the expression, $$ for a dollar sign.
	Replacement string `yaml:"replacement"`
	// JSONPath is reserved and refused.
	JSONPath *string `yaml:"jsonpath"`
}
