package request

import (
	"context"
	"net/http"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/catalog/pins"
	"svc/gateway/mcp"
	"svc/gateway/policy/flow"
	"svc/gateway/refusal"
	"svc/gateway/request/multiplex"
	"svc/gateway/request/verdict"
	"svc/gateway/session"
	"svc/gateway/telemetry"
	"svc/gateway/upstream"
)

// Answered is the part of a request that the handling of its answers needs. It is only read,
// because the upstreams of a merged stream answer concurrently.
type Answered struct {
	// Input is the input of the verdict on each answer, without snapshot and host, which are in
	// Moment.
	Input verdict.Input
	// Method is the method of the HTTP request.
	Method string
	// Allowed are the revisions that the gateway serves.
	Allowed  mcp.Allowed
	Sessions *multiplex.Sessions
	// Pins removes withheld definitions from lists; nil when no upstream has pins.
	Pins *pins.View
	// Names maps the names in upstreams' lists to those that clients see; nil leaves them
	// unchanged.
	Names *catalog.Names
	// Addresses rewrites the skill:// and ui:// addresses of upstreams; nil leaves them unchanged.
	Addresses *catalog.Addresses
	// Legacy is set if the client is of a revision with sessions, and the answer may have a form that
	// only 2026-07-28 allows.
	Legacy bool
	// Replays is set if messages of any call may arrive: on a stream that the client resumes, without a
	// session, or in a session that began before this process.
	Replays bool
	// Targets are the upstreams by name.
	Targets map[string]*upstream.Upstream
	// Session is the session of the client, zero for none.
	Session session.ID
	// Searched is set if the gateway itself answers the request from the tools of all upstreams.
	Searched bool
	// Seen stores which upstream returned a URI; nil when that is not needed.
	Seen Seen
	// Metrics counts callouts to guardrails; may be nil.
	Metrics *telemetry.Metrics
}

// Seen stores which upstream returned a URI to a caller that is in no list.
type Seen interface {
	// URIs returns the URIs in a result, before rules rewrite it.
	URIs(m *mcp.Message) []string
	LearnURIs(ctx context.Context, who *auth.Principal, upstream string, uris []string)
}

// Moment is the input of the verdict that may change between the messages of one request.
type Moment struct {
	Snapshot *verdict.Snapshot
	Host     verdict.Host
	Upstream *upstream.Upstream
	// Flow are the data-flow labels; nil if none are declared.
	Flow *flow.Table
}

// Taken is the outcome of all steps for one message.
type Taken struct {
	verdict.Result
	// Final is set for the answer to the request.
	Final bool
	// Body is the message for the client; nil for a message that is refused.
	Body []byte
	// Sets are the labels that the message sets when it is passed on.
	Sets flow.Labels
}

// IsAnswer reports whether m is the answer to the request. A response with the id of another
// request is not; an error without an id is.
func (r *Answered) IsAnswer(m *mcp.Message) bool {
	asked := r.Input.Asked
	if m.Kind != mcp.Response || asked.Kind != mcp.Request || r.Method != http.MethodPost {
		return false
	}
	return len(m.ID) == 0 || mcp.SameID(m.ID, asked.ID)
}

// Whole handles the complete answer m of the response resp and changes m to the message that is
// sent on. note is called with the verdict on each part of an answer that the gateway assembled.
func (r *Answered) Whole(at Moment, m *mcp.Message, resp *upstream.Response, note func(*verdict.Result, *mcp.Message)) Taken {
	if resp.Parts != nil {
		return r.ofParts(at, m, resp.Parts, note)
	}
	return r.take(at, m, false, true, r.Input.Asked.Kind == mcp.Request || resp.Status >= 400)
}

// Frame handles a frame of an event stream and changes m to the message that is sent on.
func (r *Answered) Frame(at Moment, m *mcp.Message) Taken {
	final := r.IsAnswer(m)
	return r.take(at, m, true, final, final)
}

// take handles a message. own is set for an answer to the request, which gets the request's id.
func (r *Answered) take(at Moment, m *mcp.Message, frame, final, own bool) Taken {
	in := r.Input
	in.Snapshot, in.Host, in.Frame = at.Snapshot, at.Host, frame
	if at.Upstream != nil {
		in.Upstream = at.Upstream.Name
	}
	// Pins and names apply to the upstream's message, before rules rewrite it. The gateway's own
	// answers have no upstream.
	if r.Pins != nil && at.Upstream != nil && !r.Pins.Cut(in.Context, at.Upstream.Name, in.Asked, in.Resumed, m) {
		return Taken{Result: verdict.Unreadable(), Final: final}
	}
	if at.Upstream != nil && !r.Names.Apply(at.Upstream.Name, in.Asked.Method, in.Resumed, m) {
		return Taken{Result: verdict.Unreadable(), Final: final}
	}
	asked := ""
	if final { // only then it is known what a response answers
		asked = in.Asked.Method
	}
	if at.Upstream != nil && !r.Addresses.Apply(at.Upstream.Name, asked, m) {
		return Taken{Result: verdict.Unreadable(), Final: final}
	}
	var uris []string
	if r.Seen != nil && at.Upstream != nil {
		uris = r.Seen.URIs(m)
	}
	sent := m.Body
	t := Taken{Result: verdict.Judge(&in, m), Final: final}
	t.Count(r.Metrics)
	if t.Refused != nil {
		abandon(at.Upstream, m)
		return t
	}
	tool := ""
	if at.Flow != nil && in.Asked.Method == mcp.MethodToolsCall {
		tool = in.Asked.Name
	}
	r.Sessions.LearnTask(in.Context, in.Caller, t.Task, at.Upstream, tool)
	t.Sets = r.sets(at.Flow, in.Upstream, m, sent)
	if len(uris) > 0 {
		r.Seen.LearnURIs(in.Context, in.Caller, at.Upstream.Name, uris)
	}
	if r.Legacy { // after the verdict, which is on what the upstream sent
		if body, changed := r.legacyForm(m); changed && mcp.Scan(body, m) != nil { // cannot happen: the splice produces valid JSON
			return Taken{Result: verdict.Unreadable(), Final: final}
		}
	}
	t.Body = m.Body
	if in.Asked.Method == mcp.MethodDiscover && m.Kind == mcp.Response {
		// A client might choose a revision that its next request would be refused for.
		t.Body, _ = r.Allowed.FilterSupported(m)
	}
	if own {
		t.Body = ownID(refusal.AnswerID(in.Asked, r.Method), m, t.Body)
	}
	return t
}

// abandon ends the server request m, which the client does not receive, so that its call does not
// wait for an answer.
func abandon(up *upstream.Upstream, m *mcp.Message) {
	if up == nil || m.ResultType != mcp.ResultInputRequired {
		return
	}
	holder, ok := up.Transport.(upstream.Holder)
	if state, isText := mcp.StringValue(mcp.Find(m.Body, m.Spans.Result, "requestState").Of(m.Body)); ok && isText {
		holder.Abandon(state)
	}
}

// withheld returns the replacements of a refused stream message that is not the answer to the
// stream's own request: the message for the client and the message for the upstream, each nil for
// none. A notification is dropped. A server request is dropped, and the upstream gets an error,
// because its call would wait for ever. An answer on a resumed stream becomes an error, because
// the client would wait for its time-out.
func withheld(m *mcp.Message, requestID string) (client, toUpstream []byte) {
	if m.Kind == mcp.Notification || len(m.ID) == 0 {
		return nil, nil
	}
	denial := mcp.AppendError(nil, m.ID, mcp.CodePolicyDenied, mcp.MessagePolicyDenied, refusal.Policy.Reason, requestID)
	if m.Kind == mcp.Response {
		return denial, nil
	}
	return nil, denial
}
