package request

import (
	"errors"
	"net/http"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
)

// AnswerPreflight responds to a preflight for /mcp.
func (ex *Exchange) AnswerPreflight() *refusal.Refusal {
	ex.record.Action = audit.ActionAllow
	if !ex.countRefusal(&refusal.Preflight) && ex.account(refusal.Preflight.Status, 0) != nil {
		return &refusal.Audit
	}
	ex.Live.Admission.Origins.AllowRequest(ex.Writer.Header(), ex.HTTP)
	ex.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// Admit applies the checks that need no body and no credentials.
func (ex *Exchange) Admit() (refused *refusal.Refusal) {
	ex.Session.Hops, refused = ex.Live.Admission.Admit(ex.Context, ex.HTTP, &ex.caller.from, ex.start)
	return refused
}

// Authenticate identifies the caller, and checks whether it may use the view.
func (ex *Exchange) Authenticate() *refusal.Refusal {
	var err error
	if ex.caller.id, err = ex.Live.Callers.Authenticate(ex.Context, ex.HTTP.Header, ex.caller.from.Address, ex.record.View); err != nil {
		refused := ex.Live.Callers.Refuse(err, ex.record.View)
		if refused.Kind == refusal.Unauthorized.Kind {
			ex.reportStranger(err)
		}
		return refused
	}
	ex.caller.identified, ex.Session.Token = true, ex.caller.id.Token
	if c, ok := ex.Writer.(interface{ Identified() }); ok { // its connection may have more streams
		c.Identified()
	}
	ex.record.OAuthClientName = ex.caller.id.ClientName
	return ex.Session.View.Admit(&ex.caller.id.Principal)
}

// reportStranger logs why a caller was not authenticated: as a warning at once and then once a minute
// for each network of callers.
// Clients that use tokens begin without one and replace one that has expired, so that is no warning
// where tokens are accepted.
func (ex *Exchange) reportStranger(err error) {
	ex.Services.Log.Debug("request is not authenticated", "request_id", ex.record.RequestID, "reason", err)
	if _, tokens := ex.Live.Callers.TokenStats(); tokens && (errors.Is(err, auth.ErrMissing) || errors.Is(err, auth.ErrExpired)) {
		return
	}
	fail := Failure{Address: text(http1.Network(ex.caller.from.Addr)), Code: refusal.Unauthorized.Kind, RequestID: ex.record.RequestID}
	if ex.Services.Strangers.First(&fail) {
		fail.Cause, fail.KeyID = clip(err.Error()), ex.Live.Callers.PresentedID(ex.HTTP.Header)
		ex.Services.Strangers.Write(&fail)
	}
}

// maxReason bounds a reason in the log, in bytes: it may quote what the caller sent.
const maxReason = 512

func clip(s string) string {
	if len(s) > maxReason {
		return strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}

// Read reads and parses the message.
func (ex *Exchange) Read() (refused *refusal.Refusal) {
	ex.record.ReplacedSurrogates, refused = ex.buffers.Body.Message(ex.source(), &ex.Message)
	if refused == nil {
		ex.hasMessage = true
		ex.record.RPC = ex.Message.Kind.String()
	}
	return refused
}

// ResolveDialect determines the protocol revision of the request.
func (ex *Exchange) ResolveDialect() (refused *refusal.Refusal) {
	ex.dialect, refused, ex.absent = dialect(ex.HTTP.Header, &ex.Message, ex.Services.Versions)
	ex.Session.Dialect = ex.dialect
	return refused
}

// Discard acknowledges a message that refers to an id that was never issued. An upstream would
// ignore it too, like a late answer.
func (ex *Exchange) Discard(unknown *refusal.Refusal) *refusal.Refusal {
	ex.record.ErrorKind = unknown.Kind
	if err := ex.account(unknown.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.Writer.WriteHeader(unknown.Status)
	return nil
}

// Rename gives a call that has the upstream's own name of a tool its visible name, which everything
// after it uses.
func (ex *Exchange) Rename() *refusal.Refusal {
	if ex.Message.Method != mcp.MethodToolsCall || ex.Services.Federation == nil || ex.Services.Search.Takes(&ex.Message) {
		return nil
	}
	visible, ok := ex.Services.Federation.OwnName(ex.Context, ex.Session.Client().Caller, &ex.Message)
	if !ok {
		return nil
	}
	if err := mcp.Scan(mcp.Splice(nil, ex.Message.Body, mcp.Edit{At: ex.Message.Spans.Name, With: mcp.AppendString(nil, visible)}), &ex.Message); err != nil {
		return refusal.OfMessage(err)
	}
	return nil
}

// Route determines the upstream. If the rules used the upstream of the request, or values were put
// back for it, it must still be the same, so that a change meanwhile bypasses nothing.
func (ex *Exchange) Route() *refusal.Refusal {
	judged := ex.route.Upstream
	ex.route = ex.Services.Find(ex.Context, &ex.Session)
	ex.record.UpstreamTool = ex.route.As.OwnTool
	if ex.route.Upstream == nil || (ex.Live.Verdict.Rules.UsesUpstream() || ex.restoring != nil) && ex.route.Upstream != judged {
		return &refusal.NoRoute
	}
	if ex.route.As.Upstream == "" { // it belongs to an earlier message
		return nil
	}
	apps, err := ex.Services.forApps(ex.Context, ex.Session.Client().Caller, &ex.Message, &ex.route.As, ex.record.Via != "")
	switch {
	case apps || errors.Is(err, catalog.ErrUnlisted):
		return &refusal.AppOnly
	case err != nil:
		return ofError(err, ex.Context.Err() != nil).Refused
	}
	refused, err := ex.Services.Pins.Check(ex.Context, ex.Session.Client().Caller, ex.route.As.Upstream, &ex.Message, ex.route.As.Own, &ex.record.ToolChanged)
	if err != nil {
		return ofError(err, ex.Context.Err() != nil).Refused
	}
	return refused
}

// openControl applies the steps of a request without a message: the caller, the session, the
// default upstream.
func (ex *Exchange) openControl() *refusal.Refusal {
	if refused := ex.Authenticate(); refused != nil {
		return refused
	}
	if refused := ex.buffers.Body.Discard(ex.source(), &ex.Message); refused != nil {
		return refused
	}
	if refused := ex.ResolveDialect(); refused != nil {
		return refused
	}
	if ex.dialect.Modern {
		// The stateless revision has neither sessions nor standalone streams.
		return &refusal.NoStream
	}
	if refused := ex.Session.JoinControl(ex.Context); refused != nil {
		return refused
	}
	up, ok := ex.Services.Targets[ex.Services.DefaultUpstream]
	if !ok {
		return &refusal.NoRoute
	}
	ex.route.Upstream = up
	if refused := ex.underPolicies(); refused != nil {
		return refused
	}
	ex.record.Action = audit.ActionAllow
	if err := ex.Session.Find(ex.Context, ex.route.Upstream); err != nil {
		return ex.refuseUpstream(err)
	}
	return nil
}
