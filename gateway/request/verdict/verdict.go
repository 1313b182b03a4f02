package verdict

import (
	"context"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/guardrail"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/refusal"
	"svc/gateway/session"
)

// Snapshot is the part of a configuration that decisions depend on.
type Snapshot struct {
	Rules  *policy.Memory
	Guards *guardrail.Set // by the names that rules use
	// Strips is set when a rule has the action strip_app.
	Strips bool
	// FilterLists is set if lists are filtered by the caller's permissions.
	FilterLists bool
	// OfTool returns the upstream that routes select for a tool; nil if no rule depends on
	// the upstream.
	OfTool func(tool string) string
	// OffersTools is set if the gateway has tools of its own in lists.
	OffersTools bool
	// FailOpen allows messages whose rate limit is unavailable.
	FailOpen bool
}

// Input is the data of a decision, besides the message.
type Input struct {
	Context  context.Context
	Snapshot *Snapshot
	// Direction is the direction of the message.
	Direction policy.Direction
	// Upstream is the upstream that the message is routed to, or comes from; empty for
	// none, and for requests if no rule depends on it.
	Upstream string
	// Caller is the client that sends the message or receives it.
	Caller *auth.Principal
	Limits redis.Store
	Now    func() time.Time
	Host   Host
	// Flow are the declared labels of the configuration, and Labels those that the caller has.
	Flow   *flow.Names
	Labels flow.Labels
	// Restored counts the values that were put back into a request.
	Restored []plane.Count
	// Origin is the call to which a client's message belongs that is no call, and Belongs is set if there
	// is one: the labels of the caller restrict the message as they do the call.
	Origin  session.Origin
	Belongs bool

	// The fields below are for responses and frames.

	// Asked is the client's message that was evaluated before; zero if there is none.
	Asked    *mcp.Message
	HasAsked bool
	// Decided is the action of the rule that Asked matched.
	Decided policy.Action
	// Policies are the policies that were applied to Asked.
	Policies *plane.Set
	// Modern is set for the protocol generation without sessions.
	Modern bool
	// Resumed is set on the standalone stream, where the request of a response is unknown.
	// Restrictions on the response of any request then apply to all responses; otherwise a
	// client could avoid them by disconnecting and resuming.
	Resumed bool
	// Frame is set for a message of an event stream.
	Frame bool
	// Skills are the files of skills, which nothing may rewrite; nil if none are known.
	Skills *catalog.SkillPaths
	// Filtered is set for a list that was already filtered for its caller.
	Filtered bool
	// Translated is set if the upstream and the client support different protocol
	// generations: a server request is then evaluated in both of its forms.
	Translated bool
}

// Host performs operations that the steps need.
type Host interface {
	// Policies returns the policies of the caller's agent, nil for none, or the refusal if
	// the message must not pass without them.
	Policies() (*plane.Set, *refusal.Refusal)
	// Score scores the message, as it is after the rules.
	Score(m *mcp.Message)
	// Tokens returns whose tokens replace values of an upstream.
	Tokens(upstream string) plane.Tokens
	// BeforeWait is called before a step that may block.
	BeforeWait()
}

// Result is the decision about a message.
type Result struct {
	// Refused is set when the message must not be forwarded.
	Refused *refusal.Refusal
	// Decision is the decision of the rules.
	Decision policy.Decision
	// Action is the action of the audit line; empty when nothing matched.
	Action string
	Rule   string
	// Performed is set when the rule did more than allow the message: its rate_limit,
	// guardrail or strip_app was performed.
	Performed bool
	Kind      string // error_kind
	// StripApplied is set when strip_app was applied; Stripped counts the content
	// blocks that it removed.
	StripApplied bool
	Stripped     int
	// SkillChanged is set for a message with something of a skill that is not approved.
	SkillChanged bool
	// Task is the handle of the task that the upstream created, as sent.
	Task string
	// Guardrail is the guardrail that was called, empty for none, and Said its answer.
	Guardrail string
	Said      guardrail.Result
	// Observed is the actions that observing rules would have performed.
	Observed []audit.Observed
	Governed Governed
	// Asks are the rule and the policies that let the message pass only with a grant; nil if the
	// message is refused. No step here has asked for one.
	Asks []Ask
	// LeftOut is set for a part of a response that was refused and is omitted.
	LeftOut []audit.LeftOut

	strip, presented bool
}

// Ask is a rule or a policy of the control plane that asks for approval of a request: one of the two
// ids is set.
type Ask struct {
	RuleID, PolicyID string
	*policy.Approval
}

// Governed is the result of the policies of the control plane.
type Governed struct {
	Fired []*plane.Policy
	// Blocked is set when a policy, and no rule, blocks the message.
	Blocked bool
	// Changed is set when the message was rewritten.
	Changed bool
	// ByArguments is set when policies have examined the arguments of the message.
	ByArguments bool
	Score       float64
	Entities    []string
	// Tokens counts the values that were replaced by tokens.
	Tokens []plane.Count
	// Scan is the time of the scan of texts, All the total time.
	Scan, All time.Duration
}

// Judge decides about the message m, and replaces it by its forwarded form: when a step
// changes the message, m is the changed one. The content type that an upstream chooses must
// not affect the decision: responses and frames are evaluated alike. The first step that
// refuses ends the evaluation, except that a response is scored in any case.
func Judge(in *Input, m *mcp.Message) (r Result) {
	if in.restrict(&r); r.Refused != nil {
		return r
	}
	in.rules(m, &r)
	if in.Direction == policy.ServerToClient {
		if r.Refused == nil {
			in.stripAnswer(m, &r)
			in.present(m, &r)
		}
		in.Host.Score(m)
	}
	if r.Refused == nil {
		in.policies(m, &r)
	}
	if r.Refused != nil {
		r.Asks = nil
	}
	return r
}

// Unreadable is the result for an ambiguous message of an upstream.
func Unreadable() Result { return Refusing(&refusal.UpstreamInvalid) }

// Refusing is the result for a message of an upstream that is refused before it is judged.
func Refusing(refused *refusal.Refusal) (r Result) {
	r.refuse(refused, audit.ActionDeny)
	return r
}

// Withhold withholds a message that was allowed, because its labels could not be set.
func (r *Result) Withhold(refused *refusal.Refusal) { r.refuse(refused, audit.ActionDeny) }

// LeaveOut changes the refusal of an upstream's part of a response into the omission of the
// part, without denying the request.
func (r *Result) LeaveOut(upstream string) {
	r.LeftOut = []audit.LeftOut{{Upstream: upstream, RuleID: r.Rule}}
	r.Refused, r.Action, r.Rule, r.Kind = nil, "", "", ""
}

// refuse refuses the message, with the action, rule and kind of the refusal in the audit
// line.
func (r *Result) refuse(refused *refusal.Refusal, action string) {
	r.Refused, r.Action, r.Kind = refused, action, refused.Kind
}
