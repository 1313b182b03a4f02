// Package answers takes what an upstream sends in answer to a request through all that
// is a matter of policy, up to what the client gets: a whole JSON answer and a frame of
// an event stream alike, so that an upstream cannot dodge a step by its choice of
// content type.
//
// A message is judged ([verdict.Judge]), the task that it makes is remembered, the
// revisions that it offers are cut down to the allowed ones, and the answer to a request
// gets that request's id. Nothing is sent or recorded here; what a record says of it is
// in [Taken].
package answers

import (
	"context"
	"net/http"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/refusal"
	"svc/gateway/relay"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// Request is the request that is answered, as far as its answers are concerned. It is
// only read: the upstreams of a merged stream answer it at the same time.
type Request struct {
	// Input is what its answers are judged by, but for what is of the moment: snapshot
	// and host.
	Input verdict.Input
	// Method is that of the HTTP request.
	Method string
	// Allowed are the revisions that the gateway serves.
	Allowed  mcp.Allowed
	Sessions *multiplex.Sessions
	// Pins takes what is withheld out of lists; nil for nobody.
	Pins Pins
	// Names are those that clients see in the lists of upstreams; nil for the upstreams' own.
	Names *catalog.Names
	// Seen remembers which upstream has shown a URI; nil for nobody.
	Seen Seen
	// Callouts counts the guardrails that were asked; nil for nobody.
	Callouts verdict.Callouts
}

// Pins compares what upstreams list with the definitions that were approved
// (upstreams[].pin_tools).
type Pins interface {
	// Cut takes what is withheld out of an upstream's answer m. resumed is set when nobody
	// knows what was asked. ok is false for an answer that could be read in two ways.
	Cut(ctx context.Context, upstream string, asked *mcp.Message, resumed bool, m *mcp.Message) (ok bool)
}

// Seen remembers which upstream has shown a caller a URI that no list has.
type Seen interface {
	// URIs returns those in a result, before rules rewrite it.
	URIs(m *mcp.Message) []string
	LearnURIs(ctx context.Context, who *auth.Principal, upstream string, uris []string)
}

// Moment is what a message is judged by that may be another for the next one.
type Moment struct {
	Snapshot *verdict.Snapshot
	Host     verdict.Host
	Upstream *transport.Upstream
}

// Taken is a message that was taken through all steps.
type Taken struct {
	verdict.Result
	// Final is set for the answer to the request.
	Final bool
	// Body is what the client gets; nil for a message that is refused.
	Body []byte
}

// IsAnswer reports whether m is the answer to the request. One with an id of another is
// not; an error without an id is.
func (r *Request) IsAnswer(m *mcp.Message) bool {
	asked := r.Input.Asked
	if m.Kind != mcp.Response || asked.Kind != mcp.Request || r.Method != http.MethodPost {
		return false
	}
	return len(m.ID) == 0 || mcp.SameID(m.ID, asked.ID)
}

// Whole takes the whole answer m, which came with resp. m is what goes on. note is called
// with what was decided about each part of an answer that the gateway made.
func (r *Request) Whole(at Moment, m *mcp.Message, resp *upstream.Response, note func(*verdict.Result, *mcp.Message)) Taken {
	if resp.Parts != nil {
		return r.ofParts(at, m, resp.Parts, note)
	}
	return r.take(at, m, false, true, r.Input.Asked.Kind == mcp.Request || resp.Status >= 400)
}

// Frame takes a frame of an event stream. m is what goes on.
func (r *Request) Frame(at Moment, m *mcp.Message) Taken {
	final := r.IsAnswer(m)
	return r.take(at, m, true, final, final)
}

// take takes a message. own is set for what answers the request, so that it has the
// request's id.
func (r *Request) take(at Moment, m *mcp.Message, frame, final, own bool) Taken {
	in := r.Input
	in.Snapshot, in.Host, in.Frame = at.Snapshot, at.Host, frame
	if at.Upstream != nil {
		in.Upstream = at.Upstream.Name
	}
	// By what the upstream sent, before any rule rewrites it. The gateway's own answers
	// have no upstream.
	if r.Pins != nil && at.Upstream != nil && !r.Pins.Cut(in.Context, at.Upstream.Name, in.Asked, in.Resumed, m) {
		return Taken{Result: verdict.Unreadable(), Final: final}
	}
	if at.Upstream != nil && !r.Names.Apply(at.Upstream.Name, in.Asked.Method, in.Resumed, m) {
		return Taken{Result: verdict.Unreadable(), Final: final}
	}
	var uris []string
	if r.Seen != nil && at.Upstream != nil {
		uris = r.Seen.URIs(m)
	}
	t := Taken{Result: verdict.Judge(&in, m), Final: final}
	t.Count(r.Callouts)
	if t.Refused != nil {
		abandon(at.Upstream, m)
		return t
	}
	r.Sessions.LearnTask(in.Context, in.Caller, t.Task, at.Upstream)
	if len(uris) > 0 {
		r.Seen.LearnURIs(in.Context, in.Caller, at.Upstream.Name, uris)
	}
	t.Body = m.Body
	if in.Asked.Method == mcp.MethodDiscover && m.Kind == mcp.Response {
		// A client would choose a revision that its next request is refused for.
		t.Body, _ = r.Allowed.FilterSupported(m)
	}
	if own {
		t.Body = relay.OwnID(refusal.AnswerID(in.Asked, r.Method), m, t.Body)
	}
	return t
}

// abandon tells whoever holds the call of a question that the client does not get to see
// that nobody will answer it.
func abandon(up *transport.Upstream, m *mcp.Message) {
	if up == nil || m.ResultType != mcp.ResultInputRequired {
		return
	}
	holder, ok := up.Transport.(transport.Holder)
	if state, isText := mcp.StringValue(mcp.Find(m.Body, m.Spans.Result, "requestState").Of(m.Body)); ok && isText {
		holder.Abandon(state)
	}
}

// Withheld returns what takes the place of a message of a stream that is refused and
// is not the answer to the stream's own request: what the client gets, nil for nothing,
// and what the upstream is told, nil for nothing. A notification is dropped in silence.
// A request of the server is dropped, and the upstream told, or its call would wait for
// ever. An answer that is delivered on a resumed stream becomes an error there: silence
// would leave the client waiting for its time-out.
func Withheld(m *mcp.Message, requestID string) (client, toUpstream []byte) {
	if m.Kind == mcp.Notification || len(m.ID) == 0 {
		return nil, nil
	}
	denial := mcp.AppendError(nil, m.ID, mcp.CodePolicyDenied, mcp.MessagePolicyDenied, refusal.Policy.Reason, requestID)
	if m.Kind == mcp.Response {
		return denial, nil
	}
	return nil, denial
}
