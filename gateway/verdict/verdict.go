// Package verdict judges one message on its way through the gateway: a request, a
// plain JSON answer, or a frame of an event stream. All three go through [Judge],
// which has the steps in their one order, so that none is forgotten for one of them:
// rules, what the action of a rule does (redaction, rate limit, guardrail, removal of
// app content), lists, scores, policies of the control plane.
//
// What decides is in [Input]; what was decided is in [Result]. Nothing is sent or
// recorded here.
package verdict

import (
	"context"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/govern"
	"svc/gateway/guardrail"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/ratelimit"
	"svc/gateway/refusal"
)

// Snapshot is the part of a configuration that messages are judged by.
type Snapshot struct {
	Rules  *policy.Memory
	Guards *guardrail.Set // by the names that rules use
	// Strips is set when a rule has the action strip_app.
	Strips bool
	// FilterLists says that lists are cut down to what their caller may ask for.
	FilterLists bool
	// OfTool returns the upstream that routes lead a tool to; nil where rules do not ask
	// for upstreams.
	OfTool func(tool string) string
	// OffersTools is set where the gateway has tools of its own to list.
	OffersTools bool
	// FailOpen lets messages pass whose limit cannot be asked.
	FailOpen bool
}

// Input is what a message is judged by, beside the message.
type Input struct {
	Context  context.Context
	Snapshot *Snapshot
	// Direction is the way of the message.
	Direction policy.Direction
	// Upstream is the upstream that the message is for, or comes from; empty for none, and
	// for requests where the rules do not ask for it.
	Upstream string
	// Caller is the client that sends the message or receives it.
	Caller *auth.Principal
	Limits ratelimit.Store
	Now    func() time.Time
	Host   Host

	// What follows is for answers and frames.

	// Asked is the client's message that was judged before; zero where there is none.
	Asked    *mcp.Message
	HasAsked bool
	// Decided is the action of the rule that Asked matched.
	Decided policy.Action
	// Policies are those that Asked was judged by.
	Policies *govern.Set
	// Modern is set for the protocol generation without sessions.
	Modern bool
	// Resumed is set on the standalone stream, where nobody knows which request an
	// answer belongs to. Everything that would apply to the answer of some request
	// applies to all, or a client would get by breaking off what it does not get at
	// once.
	Resumed bool
	// Frame is set for a message of an event stream.
	Frame bool
	// Filtered is set for a list that its caller's part was made of already.
	Filtered bool
	// Translated is set where the upstream supports another generation of the protocol than
	// the client: a question is then judged as what it is in both.
	Translated bool
}

// Host performs what the steps need while they judge.
type Host interface {
	// Policies returns the policies of the caller's agent, nil for none, or why the
	// message must not go on without them.
	Policies() (*govern.Set, *refusal.Refusal)
	// Score scores the message, as it is after the rules.
	Score(m *mcp.Message)
	// BeforeWait is called before a step that may wait for something.
	BeforeWait()
}

// Result is what was decided about a message.
type Result struct {
	// Refused is set when the message must not go on.
	Refused *refusal.Refusal
	// Decision is that of the rules.
	Decision policy.Decision
	// Action is the action of the audit line; empty when nothing matched.
	Action string
	Rule   string
	// Performed is set when the rule did more than let the message pass: its
	// rate_limit, guardrail or strip_app was performed.
	Performed bool
	Kind      string // error_kind
	// StripApplied is set when strip_app was applied; Stripped counts the content
	// blocks that it removed.
	StripApplied bool
	Stripped     int
	// Task is the handle of the task that the upstream made, as it sent it.
	Task string
	// Guardrail is the guardrail that was asked, empty for none, and Said its answer.
	Guardrail string
	Said      guardrail.Result
	// Observed is what rules that are not enforced would have done.
	Observed []audit.Observed
	Governed Governed
	// LeftOut is set for a part of an answer that was refused, and is left out.
	LeftOut []audit.LeftOut

	strip, presented bool
}

// Governed is what the policies of the control plane found.
type Governed struct {
	Fired []*govern.Policy
	// Blocked is set when a policy, and no rule, keeps the message from going on.
	Blocked bool
	// Changed is set when the message was rewritten.
	Changed bool
	// ByArguments is set when policies have examined the arguments of the message.
	ByArguments bool
	Score       float64
	Entities    []string
	// Scan is how long texts were looked at, All how long everything took.
	Scan, All time.Duration
}

// Judge judges the message m, and makes it what goes on: when a step changes the
// message, m is the changed one. An upstream must not dodge a rule by its choice of
// content type: answers and frames are judged alike. The first step that refuses ends
// it, except that an answer is scored whatever becomes of it.
func Judge(in *Input, m *mcp.Message) (r Result) {
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
	return r
}

// Unreadable is the result for a message of an upstream that could be read in two ways.
func Unreadable() (r Result) {
	r.refuse(&refusal.UpstreamInvalid, audit.ActionDeny)
	return r
}

// LeaveOut makes the refusal of an upstream's part of an answer one that leaves out the
// part, and does not deny the request.
func (r *Result) LeaveOut(upstream string) {
	r.LeftOut = []audit.LeftOut{{Upstream: upstream, RuleID: r.Rule}}
	r.Refused, r.Action, r.Rule, r.Kind = nil, "", "", ""
}

// refuse keeps the message from going on, with the action, rule and kind of the
// refusal in the line.
func (r *Result) refuse(refused *refusal.Refusal, action string) {
	r.Refused, r.Action, r.Kind = refused, action, refused.Kind
}
