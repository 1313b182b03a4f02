package request

import (
	"context"
	"errors"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/request/verdict"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// appendHeader appends the header of the upstream request to h, which must be empty. The
// transport adds the fields of the session.
func (ex *Exchange) appendHeader(h mcp.Header) mcp.Header {
	r := mcp.RequestHeader{
		From: ex.HTTP.Header, Message: &ex.Message, OwnName: ex.route.As.Own, Hops: ex.Session.Hops, Forward: ex.Live.ForwardHeaders, Rewriter: headerRewriter{ex},
	}
	h = r.Append(h)
	if ex.record.Via != "" && ex.dialect.Modern {
		ex.Services.Search.Mirror(ex.Context, ex.Session.Client().Caller, &h, &ex.Message, ex.route.As.Own)
	}
	return h
}

// headerRewriter changes header fields of the upstream request.
type headerRewriter struct{ ex *Exchange }

func (h headerRewriter) Trace(to mcp.Header) mcp.Header {
	h.ex.passTrace(&to)
	return to
}

func (h headerRewriter) Param(name, value string) (string, bool) {
	ex := h.ex
	if ex.record.Via != "" {
		return "", false // the fields mirror the mcp_call of the client
	}
	value, token := ex.restoring.Header(value)
	p := verdict.Params{
		Message: &ex.Message, Rule: ex.decision.Rule, Redacted: ex.record.Action == audit.ActionRedact, ByArguments: ex.decision.ByArguments || ex.governed.byArguments || ex.approval != nil,
		Policies: ex.governed.set, Fired: ex.governed.fired, Changed: ex.governed.changed, Token: token && ex.Services.Governance != nil,
	}
	mirrored, ok := p.Rewrite(name, value)
	if !ok {
		h.dropped(name, token)
	}
	return mirrored, ok
}

// dropped counts and logs a field that is removed; its value could be a secret.
func (h headerRewriter) dropped(name string, token bool) {
	ex, reason, cause := h.ex, "mismatch", "it does not have the value of its argument as rules and policies left it"
	if token {
		reason, cause = "token", "it has a token of a redacted value that was not put back into its argument"
	}
	if m := ex.Services.Metrics; m != nil {
		m.HeaderDropped(reason)
	}
	if ex.route.Upstream == nil {
		return
	}
	name = upstream.Printable([]byte(name), maxFieldName)
	fail := ex.failureOf(ex.route.Upstream, upstream.Cause{Code: "header_" + reason, Text: "Mcp-Param-" + name + ": " + cause})
	fail.Dropped = true
	ex.Services.Failures.Report(fail)
}

// maxFieldName bounds the name of a removed header field in the log, in bytes.
const maxFieldName = 100

// copyHeader copies the fields of the upstream's response that may be forwarded. A refused initialize
// begins no session.
func (ex *Exchange) copyHeader(from *upstream.Response) {
	to := ex.Writer.Header()
	mcp.CopyResponse(to, from.Header, ex.Live.ForwardHeaders)
	if from.Refused != nil {
		return
	}
	if sid := ex.Session.Issue(ex.Context, from.Header.Get(mcp.HeaderSession), ex.route.Upstream); sid != "" {
		to[mcp.HeaderSession] = []string{sid}
	}
}

// listen opens the standalone stream of an upstream.
func (ex *Exchange) listen(ctx context.Context, t *upstream.Upstream, s session.UpstreamSession, lastID string) (*upstream.Response, error) {
	header, caller := ex.appendHeader(nil), ex.Session.Caller()
	header.Del(mcp.HeaderLastEventID)
	return t.Transport.Listen(ctx, &upstream.Request{
		Session: ex.Session.SessionAt(s), Caller: &caller, Header: header, LastEventID: lastID,
		// The stream may be idle: only the first byte has a time-out.
		Timeouts: &upstream.Timeouts{FirstByte: t.Timeout},
	})
}

// noteResponse records that there is a response: of the upstream, or of the gateway in its place
// if the message could not be translated.
func (ex *Exchange) noteResponse(resp *upstream.Response) {
	ex.executed, ex.record.UpstreamDialect = true, resp.Dialect
	resp.OnRefused(func(refused *upstream.Refused) { // called if a stream is refused later
		ex.executed, ex.record.ErrorKind = refused.Kind == refusal.InputFailed.Kind, refused.Kind
		fail := ex.failureOf(ex.route.Upstream, upstream.Cause{Code: refused.Kind, Text: refused.Cause})
		fail.Refused = true
		ex.Services.Failures.Report(fail)
	})
}

// refuseUpstream returns the refusal for a failed upstream request, and logs the failure.
func (ex *Exchange) refuseUpstream(err error) *refusal.Refusal {
	if notApproved := (*notApprovedError)(nil); errors.As(err, &notApproved) && ex.Context.Err() == nil {
		return ex.refuseClaim(notApproved.state)
	}
	o := ofError(err, ex.Context.Err() != nil)
	if o.Cause.Code != "" {
		ex.Services.Failures.Report(ex.failureOf(ex.route.Upstream, o.Cause))
	}
	return o.Refused
}

// failureOf describes a failure of an upstream during this request.
func (ex *Exchange) failureOf(t *upstream.Upstream, cause upstream.Cause) *Failure {
	return &Failure{
		Upstream: t.Name, URL: t.Transport.Address(), Code: cause.Code, Cause: cause.Text, RequestID: ex.record.RequestID,
		Refused: cause.Code == upstream.CauseDescriptors, // code and error_kind are the same
	}
}
