package exchange

import (
	"context"

	"svc/gateway/audit"
	"svc/gateway/failures"
	"svc/gateway/headers"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/relay"
	"svc/gateway/session"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// AppendHeader appends the header of the upstream request to h, which must be empty. The
// transport adds the fields of the session.
func (ex *Exchange) AppendHeader(h upstream.Header) upstream.Header {
	r := headers.Request{
		From: ex.HTTP.Header, Message: &ex.Message, OwnName: ex.Found.Own, Hops: ex.Session.Hops, Forward: ex.Live.ForwardHeaders, Rewriter: headerRewriter{ex},
	}
	h = r.Append(h)
	if ex.Record.Via != "" && ex.Dialect.Modern {
		ex.Services.Search.Mirror(ex.Context, ex.Session.Client().Caller, &h, &ex.Message, ex.Found.Own)
	}
	return h
}

// headerRewriter changes header fields of the upstream request.
type headerRewriter struct{ ex *Exchange }

func (h headerRewriter) Trace(to upstream.Header) upstream.Header {
	h.ex.PassTrace(&to)
	return to
}

func (h headerRewriter) Param(name, value string) (string, bool) {
	ex := h.ex
	if ex.Record.Via != "" {
		return "", false // the fields mirror the mcp_call of the client
	}
	p := verdict.Params{
		Message: &ex.Message, Rule: ex.Decision.Rule, Redacted: ex.Record.Action == audit.ActionRedact, ByArguments: ex.Decision.ByArguments || ex.Governed.ByArguments,
		Policies: ex.Governed.Set, Fired: ex.Governed.Fired, Changed: ex.Governed.Changed,
	}
	return p.Rewrite(name, value)
}

// CopyHeader copies the fields of the upstream's response that may be forwarded.
func (ex *Exchange) CopyHeader(from upstream.Header) {
	to := ex.Writer.Header()
	headers.CopyResponse(to, from, ex.Live.ForwardHeaders)
	if sid := ex.Session.Issue(ex.Context, from.Get(mcp.HeaderSession), ex.Upstream); sid != "" {
		to[mcp.HeaderSession] = []string{sid}
	}
}

// Listen opens the standalone stream of an upstream.
func (ex *Exchange) Listen(ctx context.Context, t *transport.Upstream, s session.UpstreamSession, lastID string) (*upstream.Response, error) {
	header, caller := ex.AppendHeader(nil), ex.Session.Caller()
	header.Del(mcp.HeaderLastEventID)
	return t.Transport.Listen(ctx, &transport.Request{
		Session: ex.Session.SessionAt(s), Caller: &caller, Header: header, LastEventID: lastID,
		// The stream may be idle: only the first byte has a time-out.
		Timeouts: &upstream.Timeouts{FirstByte: t.Timeout},
	})
}

// NoteResponse records that there is a response: of the upstream, or of the gateway in its place
// if the message could not be translated.
func (ex *Exchange) NoteResponse(resp *upstream.Response) {
	ex.Executed, ex.Record.UpstreamDialect = true, resp.Dialect
	resp.OnRefused(func(refused *upstream.Refused) { // called if a stream is refused later
		ex.Executed, ex.Record.ErrorKind = refused.Kind == refusal.InputFailed.Kind, refused.Kind
		fail := ex.FailureOf(ex.Upstream, upstream.Cause{Code: refused.Kind, Text: refused.Cause})
		fail.Refused = true
		ex.Services.Failures.Report(fail)
	})
}

// RefuseUpstream returns the refusal for a failed upstream request, and logs the failure.
func (ex *Exchange) RefuseUpstream(err error) *refusal.Refusal {
	o := relay.OfError(err, ex.Context.Err() != nil)
	if o.Cause.Code != "" {
		ex.Services.Failures.Report(ex.FailureOf(ex.Upstream, o.Cause))
	}
	return o.Refused
}

// FailureOf describes a failure of an upstream during this request.
func (ex *Exchange) FailureOf(t *transport.Upstream, cause upstream.Cause) *failures.Failure {
	return &failures.Failure{
		Upstream: t.Name, URL: t.Transport.Address(), Code: cause.Code, Cause: cause.Text, RequestID: ex.Record.RequestID,
	}
}
