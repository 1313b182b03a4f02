package policy

import (
	"svc/gateway/mcp/match"
	"svc/gateway/policy/arguments"
)

// Config is the policy section of the gateway file (gateway specification,
// policy).
type Config struct {
	// DefaultAction is allow or deny, for messages that no rule matches. If it is absent,
	// tool calls are denied and other methods are allowed.
	DefaultAction *string `yaml:"default_action"`
	// Rules are evaluated from the first to the last; the first that matches applies.
	Rules []RuleConfig `yaml:"rules"`
	// FilterLists removes from tools/list responses the tools that the rules deny to the
	// caller, and empties resources/list, resources/templates/list and prompts/list for
	// callers whose resources/read or prompts/get is denied. With rules that have uri_prefix,
	// resources are removed by their URI, and a template only if no URI that it can expand to
	// is allowed. A tool that only a label of the caller denies stays. It is off by default
	// without federation, and on with it.
	FilterLists *bool `yaml:"filter_lists"`
	// DenyAs is http (the default) or tool_error: with tool_error, a tools/call that is
	// denied by a rule, the default action, a guardrail or a policy of the control plane
	// gets a result that the model reads (isError: true), with HTTP status 200.
	DenyAs string `yaml:"deny_as"`
}

// Values of DenyAs; empty is http.
const (
	DenyAsHTTP      = "http"
	DenyAsToolError = "tool_error"
)

// DefaultActionName is the default action for logs.
func (c *Config) DefaultActionName() string {
	if c.DefaultAction == nil {
		return "omitted"
	}
	return *c.DefaultAction
}

// RuleConfig is one rule.
type RuleConfig struct {
	// ID is unique within the list. It identifies the rule in audit lines, spans and
	// metrics.
	ID string `yaml:"id"`
	// Action is allow, deny, redact, rate_limit, strip_app or guardrail.
	Action string `yaml:"action"`
	// Mode is enforce (the default) or observe. A rule in mode observe is never enforced:
	// the action that it would have applied is written to the audit line, and evaluation
	// continues with the next rule.
	Mode string `yaml:"mode"`
	// When holds the conditions of the rule. It is required; an empty one matches every
	// client-to-server message.
	When *When `yaml:"when"`
	// Redact lists the substitutions of the redact action, in order.
	Redact []Substitution `yaml:"redact"`
	// TokensPerSecond is the refill rate of the rate_limit action, more than 0.
	TokensPerSecond *float64 `yaml:"tokens_per_second"`
	// Burst is the capacity of the bucket of the rate_limit action, at least 1
	// (default 1).
	Burst *int `yaml:"burst"`
	// Guardrail is the name of the endpoint of the guardrail action.
	Guardrail *string `yaml:"guardrail"`
	// Frames makes a server-to-client guardrail rule also check each frame of an event
	// stream, one after the other. Without it the rule checks plain JSON responses only,
	// and frames that it matches pass.
	Frames bool `yaml:"frames"`
	// Approval lets the calls that an allow rule matches pass only after a person has granted them;
	// {} has all defaults. It needs control_plane.
	Approval *ApprovalConfig `yaml:"approval"`
	// Message is the explanation of a denial for the client: plain text, at most 512
	// characters. It becomes error.data.message, or the text of the result with deny_as:
	// tool_error.
	Message string `yaml:"message"`
}

// When are the conditions of a rule; all conditions that are set must hold. At most one
// of the five tool matchers may be set.
type When struct {
	// ToolName is the exact, case-sensitive name of a tool; * matches any
	// message, whatever its method.
	ToolName *string `yaml:"tool_name"`
	// ToolPrefix is the prefix of the name of the tool.
	ToolPrefix *string `yaml:"tool_prefix"`
	// ToolGlob is a shell-style pattern: *, ? and character classes.
	ToolGlob *string `yaml:"tool_glob"`
	// ToolRegex is an RE2 expression that must match the whole name.
	ToolRegex *string `yaml:"tool_regex"`
	// ToolNameIn lists exact names.
	ToolNameIn []string `yaml:"tool_name_in"`
	// Method is the exact method; empty or absent matches any method.
	Method string `yaml:"method"`
	// Direction is client_to_server (the default when absent), server_to_client, or empty
	// for both.
	Direction *string `yaml:"direction"`
	// ResultType is input_required, for responses with that resultType; it requires
	// direction server_to_client.
	ResultType string `yaml:"result_type"`
	// Upstream lists names of upstreams. A message of a client must be routed to one of
	// them, and a message of a server come from one of them. With federation the name svc
	// is the gateway itself, which responds to list requests.
	Upstream []string `yaml:"upstream"`
	// Restores lists entities, such as EMAIL; a value of one of them must have been put back
	// into the request in place of a token (redactionStrategy: token of a policy of the
	// control plane).
	Restores []string `yaml:"restores"`
	// LabelsAll lists declared labels (data_flow.labels); the caller must have all of them.
	LabelsAll []string `yaml:"labels_all"`
	// LabelsAny lists declared labels; the caller must have at least one.
	LabelsAny []string `yaml:"labels_any"`
	// URIPrefix is the beginning of the URI that a resources/read, resources/subscribe, skills/get or
	// resources/directory/read asks for; the rule never matches other methods. With several merged
	// upstreams, skill:// and ui:// addresses begin with the name of the upstream, as clients see them.
	URIPrefix *string `yaml:"uri_prefix"`
	// Claims are conditions on the verified OAuth identity of the caller.
	Claims *ClaimsConfig `yaml:"claims"`
	// Arguments are conditions on the arguments of a tools/call or prompts/get, by JSON
	// Pointer, with * for each element or member; the rule never matches other methods. A
	// missing argument, or one of another type than its matcher requires, is matched by
	// deny and by no other action. With approval a missing argument matches too, and one of
	// another type denies the request.
	Arguments arguments.Config `yaml:"arguments"`
}

// Tool is the tool matcher of the conditions.
func (w *When) Tool() match.Written {
	return match.Written{Name: w.ToolName, Prefix: w.ToolPrefix, Glob: w.ToolGlob, Regex: w.ToolRegex, NameIn: w.ToolNameIn}
}

// ClaimsConfig holds conditions on a verified identity; all that are not empty must
// hold. Callers without a verified OAuth identity never match.
type ClaimsConfig struct {
	// Groups lists groups; the caller must be a member of all of them.
	Groups []string `yaml:"groups"`
	// GroupsIn lists groups; the caller must be a member of at least one.
	GroupsIn []string `yaml:"groups_in"`
	// ScopesIn lists scopes; the caller must hold at least one.
	ScopesIn []string `yaml:"scopes_in"`
	// SubjectIn lists subjects; the caller's subject must be one of them.
	SubjectIn []string `yaml:"subject_in"`
}

// Empty reports whether the block has no conditions.
func (c *ClaimsConfig) Empty() bool {
	return c == nil || len(c.Groups)+len(c.GroupsIn)+len(c.ScopesIn)+len(c.SubjectIn) == 0
}

// Substitution is one entry of redact.
type Substitution struct {
	// Regex is the RE2 expression that is replaced.
	Regex string `yaml:"regex"`
	// Replacement is the text that replaces a match; $1, ${1} and ${name} are replaced by
	// the groups of the expression, $$ by a dollar sign.
	Replacement string `yaml:"replacement"`
	// JSONPath is reserved and rejected.
	JSONPath *string `yaml:"jsonpath"`
}
