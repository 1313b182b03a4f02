package exchange

import (
	"net/http"

	"svc/gateway/admission"
	"svc/gateway/audit"
	"svc/gateway/intake"
	"svc/gateway/refusal"
)

// AnswerPreflight responds to a preflight for /mcp.
func (ex *Exchange) AnswerPreflight() *refusal.Refusal {
	ex.Record.Action = audit.ActionAllow
	if !ex.CountRefusal(&refusal.Preflight) && ex.Account(refusal.Preflight.Status, 0) != nil {
		return &refusal.Audit
	}
	ex.Live.Admission.Origins.AllowRequest(ex.Writer.Header(), ex.HTTP)
	ex.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// Admit applies the checks that need no body and no credentials.
func (ex *Exchange) Admit() (refused *refusal.Refusal) {
	client := admission.Client{Addr: ex.Addr, Address: ex.Address}
	ex.Session.Hops, refused = ex.Live.Admission.Admit(ex.Context, ex.HTTP, &client, ex.Start)
	return refused
}

// Authenticate identifies the caller, and checks whether it may use the view.
func (ex *Exchange) Authenticate() *refusal.Refusal {
	var err error
	if ex.Who, err = ex.Live.Callers.Authenticate(ex.Context, ex.HTTP.Header, ex.Address, ex.Record.View); err != nil {
		refused := ex.Live.Callers.Refuse(err, ex.Record.View)
		if refused.Kind == refusal.Unauthorized.Kind {
			ex.Services.Log.Debug("request is not authenticated", "request_id", ex.Record.RequestID, "reason", err)
		}
		return refused
	}
	ex.Identified, ex.Session.Token = true, ex.Who.Token
	ex.Record.OAuthClientName = ex.Who.ClientName
	return ex.Session.View.Admit(&ex.Who.Principal)
}

// Read reads and parses the message.
func (ex *Exchange) Read() (refused *refusal.Refusal) {
	ex.Record.ReplacedSurrogates, refused = ex.Body.Message(ex.source(), &ex.Message)
	if refused == nil {
		ex.HasMessage = true
		ex.Record.RPC = ex.Message.Kind.String()
	}
	return refused
}

// ResolveDialect determines the protocol revision of the request.
func (ex *Exchange) ResolveDialect() (refused *refusal.Refusal) {
	ex.Dialect, refused = intake.Dialect(ex.HTTP.Header, &ex.Message, ex.Services.Versions)
	ex.Session.Dialect = ex.Dialect
	return refused
}

// Discard acknowledges a message that refers to an id that was never issued. An upstream would
// ignore it too, like a late answer.
func (ex *Exchange) Discard(unknown *refusal.Refusal) *refusal.Refusal {
	ex.Record.ErrorKind = unknown.Kind
	if err := ex.Account(unknown.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.Writer.WriteHeader(unknown.Status)
	return nil
}

// Route determines the upstream. If the rules used the upstream of the request, it must still be
// the same, so that a change meanwhile does not bypass a rule.
func (ex *Exchange) Route() *refusal.Refusal {
	found := ex.Services.Find(ex.Context, &ex.Session)
	judged := ex.Upstream
	ex.Upstream, ex.Found, ex.Record.UpstreamTool = found.Upstream, found.As, found.As.OwnTool
	if ex.Upstream == nil || ex.Live.Verdict.Rules.UsesUpstream() && ex.Upstream != judged {
		return &refusal.NoRoute
	}
	if found.As.Upstream == "" { // it belongs to an earlier message
		return nil
	}
	return ex.Services.Pins.Check(ex.Context, ex.Session.Client().Caller, found.As.Upstream, &ex.Message, ex.Found.Own, &ex.Record.ToolChanged)
}

// OpenControl applies the steps of a request without a message: the caller, the session, the
// default upstream.
func (ex *Exchange) OpenControl() *refusal.Refusal {
	if refused := ex.Authenticate(); refused != nil {
		return refused
	}
	if refused := ex.Body.Discard(ex.source(), &ex.Message); refused != nil {
		return refused
	}
	if refused := ex.ResolveDialect(); refused != nil {
		return refused
	}
	if ex.Dialect.Modern {
		// The stateless revision has neither sessions nor standalone streams.
		return &refusal.NoStream
	}
	if refused := ex.Session.Join(ex.Context); refused != nil {
		return refused
	}
	up, ok := ex.Services.Targets[ex.Services.DefaultUpstream]
	if !ok {
		return &refusal.NoRoute
	}
	ex.Upstream = up
	if refused := ex.UnderPolicies(); refused != nil {
		return refused
	}
	ex.Record.Action = audit.ActionAllow
	if err := ex.Session.Find(ex.Context, ex.Upstream); err != nil {
		return ex.RefuseUpstream(err)
	}
	return nil
}
