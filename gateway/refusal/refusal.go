// Package refusal is the table of the gateway's own error responses: one value for each
// reason, with its HTTP status, its JSON-RPC error and the fields of its audit line. It
// makes no decisions.
package refusal

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy/guardrail"
)

// Refusal is an error response of the gateway (gateway specification, Errors). The values
// are a table: one for each reason, never modified; data of one request (Retry-After, a
// challenge) is added to a copy.
type Refusal struct {
	Status  int    // HTTP status
	Code    int    // JSON-RPC error code
	Message string // JSON-RPC error message
	Reason  string // data.reason: stable, for programs
	// Kind is the audit line's error_kind; empty if the action is sufficient.
	Kind string
	// Action is the audit line's action; empty means the action that policy had decided
	// before, or else deny.
	Action string
	// Rule is the audit line's rule_id; never sent to the client.
	Rule string

	RetryAfter time.Duration
	Challenge  string // WWW-Authenticate
	Allow      string // Allow
	// Versions is set on unsupported_protocol_version: data.supported.
	Versions  []string
	Requested string
	// Detail is the configured explanation for the client: data.message.
	Detail string
	// Pointer is the JSON Pointer of what is refused in the message: data.pointer.
	Pointer string
	// Approval is set for a call that a person has to approve.
	Approval *Approval
	// NullID selects id null for the response: no part of the body was read. NoID selects an
	// empty string in every response, see [mcp.EmptyID].
	NullID, NoID bool
}

// After returns a copy with a Retry-After.
func (r Refusal) After(d time.Duration) *Refusal {
	r.RetryAfter = d
	return &r
}

// WithRule returns a copy with the rule id for the audit line.
func (r Refusal) WithRule(id string) *Refusal {
	r.Rule = id
	return &r
}

// WithDetail returns a copy with an explanation from the configuration, which may be empty.
func (r Refusal) WithDetail(detail string) *Refusal {
	r.Detail = detail
	return &r
}

// WithPointer returns a copy that says what in the message is refused.
func (r Refusal) WithPointer(pointer string) *Refusal {
	r.Pointer = pointer
	return &r
}

// withReason returns a copy with another data.reason.
func (r Refusal) withReason(reason string) *Refusal {
	r.Reason, r.Kind = reason, reason
	return &r
}

// withMessage returns a copy with another message, which is also its data.reason.
func (r Refusal) withMessage(message string) *Refusal {
	r.Message, r.Reason, r.Kind = message, message, message
	return &r
}

// WithChallenge returns a copy with a WWW-Authenticate header.
func (r Refusal) WithChallenge(challenge string) *Refusal {
	r.Challenge = challenge
	return &r
}

// withKind returns a copy with another error_kind in the audit line.
func (r Refusal) withKind(kind string) *Refusal {
	r.Kind = kind
	return &r
}

// defined are the refusals of the table, in its order.
var defined []Refusal

// define adds a refusal to the table.
func define(r Refusal) Refusal {
	defined = append(defined, r)
	return r
}

// All returns every refusal: the table, and the messages that [mcp.Scan] refuses. Together
// they have every error_kind of audit lines, and none can be created outside of this
// package.
func All() []Refusal {
	all := slices.Clone(defined)
	for _, e := range mcp.Faults() {
		all = append(all, *OfMessage(&e))
	}
	return append(all, *OfMessage(nil))
}

// OfMessage returns the refusal of a message that [mcp.Scan], or a check of its
// header, has refused with err.
func OfMessage(err error) *Refusal {
	refused := Refusal{Status: http.StatusBadRequest, Code: mcp.CodeInvalidRequest,
		Message: mcp.MessageInvalidRequest, Reason: "invalid_request", Kind: "invalid_request"}
	var e *mcp.Error
	if errors.As(err, &e) {
		refused.Code, refused.Message, refused.Reason, refused.Kind = e.Code, e.Message(), e.Reason, e.Reason
	}
	return &refused
}

// InSession returns the form of a refusal for a request of a session at an endpoint that issues
// the sessions itself. Clients interpret any 404 as the end of their session, so only
// [Session] has that status there. A request, m, gets the error with which servers of the
// official SDKs respond when they lack the item or the method. A notification or a client's
// response expects no message, so a 200 with one would mean that it was accepted: it gets 400. m has
// no kind for a GET or DELETE.
func (r *Refusal) InSession(m *mcp.Message) *Refusal {
	if r.Status != http.StatusNotFound || r.Kind == Session.Kind {
		return r
	}
	shown := *r
	switch {
	case m.Kind == mcp.Invalid:
		shown.Status, shown.Code = http.StatusBadRequest, mcp.CodeInvalidRequest
	case m.Kind != mcp.Request:
		shown.Status = http.StatusBadRequest
	case m.Method == mcp.MethodToolsCall && r.Kind == NoRoute.Kind:
		shown.Status, shown.Code = http.StatusOK, mcp.CodeInvalidParams
	default:
		shown.Status = http.StatusOK
	}
	return &shown
}

// OfSender returns why a request that the gateway itself answers is refused for what it says
// of its sender, with the cause in words: nobody else looks at that. It is nil for a request
// that is fine. version is the revision that the request declares, empty for none.
func OfSender(m *mcp.Message, version string) (why *Refusal, cause string) {
	switch {
	case version != "" && mcp.ImpossibleRevision(version):
		refused := Version
		refused.Versions, refused.Requested = mcp.Revisions(), version
		return &refused, "the request declares an unknown protocol revision"
	case mcp.Modern(version) && !mcp.DeclaresCapabilities(m):
		return &ClientCapabilities, "_meta lacks " + mcp.MetaClientCapabilities + ", an object"
	}
	return nil, ""
}

// The refusals.
var (
	Policy = define(Refusal{Status: http.StatusForbidden, Code: mcp.CodePolicyDenied,
		Message: mcp.MessagePolicyDenied, Reason: "policy_denied", Action: audit.ActionDeny})
	Redact = define(Refusal{Status: http.StatusForbidden, Code: mcp.CodePolicyDenied,
		Message: mcp.MessagePolicyDenied, Reason: "policy_denied", Action: audit.ActionDeny, Kind: "redact_invalid"})

	// An argument that a rule with when.arguments cannot evaluate, and arguments beyond the
	// limits of the evaluation.
	ArgumentType  = define(*Policy.withReason("argument_type"))
	ArgumentLimit = define(*Policy.withReason("argument_limit"))

	// A rule has conditions on claims that the token has in no readable form.
	ClaimsUnreadable = define(*Policy.withReason("claims_unreadable"))

	// The definition of a tool or prompt is not the approved one: upstreams[].pin_tools.
	Pinned = define(*Policy.withReason("tool_changed"))

	// A tool is for apps alone, or not known not to be, and the call is not made at a view of its
	// upstream alone, or by a model.
	AppOnly = define(*Policy.withReason("app_only").WithDetail("the tool is for apps of its server alone, or the gateway has not read its definition yet; an app calls it at the URL of a view of that server alone"))

	Rate = define(Refusal{Status: http.StatusTooManyRequests, Code: mcp.CodeRateLimited,
		Message: mcp.MessageRateLimited, Reason: "rate_limited", Action: audit.ActionRateLimitBlocked})
	RateStore = define(Refusal{Status: http.StatusTooManyRequests, Code: mcp.CodeRateLimited,
		Message: mcp.MessageRateLimited, Reason: "rate_limit_store_unavailable", Action: audit.ActionRateLimitBlocked, Kind: "rate_limit_store_unavailable"})
	InputRate = define(Refusal{Status: http.StatusTooManyRequests, Code: mcp.CodeRateLimited,
		Message: mcp.MessageRateLimited, Reason: "input_rate_limited", Action: audit.ActionRateLimitBlocked, Kind: "input_rate_limited", NullID: true})

	// The store of the input limit was unavailable.
	InputRateStore = define(*InputRate.withKind("rate_limit_store_unavailable"))

	// A guardrail was unavailable and fails closed.
	GuardrailUnreachable = define(*Policy.withKind(guardrail.KindUnreachable))
	GuardrailTooLarge    = define(*Policy.withKind(guardrail.KindTooLarge))

	// The policies of the control plane.
	GovernanceBlock       = define(*Policy.withKind("governance_block"))
	TokenInvalid          = define(*Policy.withReason("token_invalid").WithDetail("a token is not one that the gateway made for you: copy it exactly as you received it, or leave it out"))
	TokenElsewhere        = define(*Policy.withReason("token_elsewhere").WithDetail("a token may only be sent back to the server whose answer it was in, in an argument: leave it out"))
	GovernanceRedact      = define(*Policy.withKind("governance_redact_invalid"))
	GovernanceTooLarge    = define(*Policy.withKind("governance_too_large"))
	GovernanceUnavailable = define(*Policy.withKind("governance_unavailable"))

	// Approval of a call by a person.
	ApprovalRequired = define(*Policy.withReason("approval_required"))
	ApprovalDenied   = define(*Policy.withReason("approval_denied").
				WithDetail("a person refused this call. Do not send it again: do without it, or ask your user what to do"))
	ApprovalTooLarge = define(*Policy.withReason("approval_too_large").
				WithDetail("a person must approve this call, and its arguments cannot be shown: they have more than 64 values, or too long names or address. Send a call with fewer values"))
	ApprovalLimit = define(Refusal{Status: http.StatusTooManyRequests, Code: mcp.CodeRateLimited, Action: audit.ActionDeny,
		Message: mcp.MessageRateLimited, Reason: "approval_limit", Kind: "approval_limit",
		Detail: "a person must approve this call, and too many calls wait for that or were refused. Wait, and do not send other calls of this tool meanwhile"})
	ApprovalUnavailable = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal, Action: audit.ActionDeny,
		Message: "approval_unavailable", Reason: "approval_unavailable", Kind: "approval_unavailable",
		Detail: "a person must approve this call, and the gateway cannot ask at present. Nothing was sent: try again later"})

	Unauthorized = define(Refusal{Status: http.StatusUnauthorized, Code: mcp.CodeUnauthorized,
		Message: mcp.MessageUnauthorized, Reason: "unauthorized", Kind: "unauthorized"})
	Scope = define(Refusal{Status: http.StatusForbidden, Code: mcp.CodeUnauthorized,
		Message: mcp.MessageInsufficientScope, Reason: "insufficient_scope", Kind: "insufficient_scope"})
	NoKeySet = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal,
		Message: "issuer_unavailable", Reason: "issuer_unavailable", Kind: "issuer_unavailable"})
	AuthBusy = define(Refusal{Status: http.StatusTooManyRequests, Code: mcp.CodeRateLimited,
		Message: mcp.MessageRateLimited, Reason: "authentication_busy", Kind: "authentication_busy"})

	Origin = define(Refusal{Status: http.StatusForbidden, Code: mcp.CodeInvalidRequest,
		Message: "origin_not_allowed", Reason: "origin_not_allowed", Kind: "origin_not_allowed"})
	// Not a refusal, but handled like one: the caller is not identified.
	Preflight = Refusal{Status: http.StatusNoContent, Kind: audit.CountPreflight, Action: audit.ActionAllow}
	// The request has passed too many gateways: one of them leads back to another.
	Loop = define(Refusal{Status: http.StatusLoopDetected, Code: mcp.CodeInternal,
		Message: "loop_detected", Reason: "loop_detected", Kind: "loop_detected"})
	Method = define(Refusal{Status: http.StatusMethodNotAllowed, Code: mcp.CodeInvalidRequest,
		Message: "method_not_allowed", Reason: "method_not_allowed", Kind: "method_not_allowed", Allow: "GET, POST, DELETE", NullID: true})
	Overloaded = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal,
		Message: "overloaded", Reason: "overloaded", Kind: "overloaded", RetryAfter: time.Second})
	// The gateway has no free file descriptor to reach an upstream.
	Descriptors = define(*Overloaded.withKind("no_descriptors"))
	MediaType   = define(Refusal{Status: http.StatusUnsupportedMediaType, Code: mcp.CodeInvalidRequest,
		Message: "unsupported_media_type", Reason: "unsupported_media_type", Kind: "unsupported_media_type"})
	TooLarge = define(Refusal{Status: http.StatusRequestEntityTooLarge, Code: mcp.CodeInvalidRequest,
		Message: mcp.MessageTooLarge, Reason: "request_too_large", Kind: "request_too_large"})
	SlowBody = define(Refusal{Status: http.StatusRequestTimeout, Code: mcp.CodeInvalidRequest,
		Message: "body_timeout", Reason: "body_timeout", Kind: "body_timeout"})
	Unreadable = define(Refusal{Status: http.StatusBadRequest, Code: mcp.CodeInvalidRequest,
		Message: "body_unreadable", Reason: "body_unreadable", Kind: "body_unreadable"})
	Header = define(Refusal{Status: http.StatusBadRequest, Code: mcp.CodeInvalidRequest,
		Message: "invalid_header", Reason: "invalid_header", Kind: "invalid_header"})
	Session = define(Refusal{Status: http.StatusNotFound, Code: mcp.CodeInvalidRequest,
		Message: "session_not_found", Reason: "session_not_found", Kind: "session_not_found"})
	// A GET or DELETE without a session at an endpoint that only has streams of sessions.
	SessionRequired = define(Refusal{Status: http.StatusBadRequest, Code: mcp.CodeInvalidRequest,
		Message: "session required", Reason: "session_required", Kind: "session_required", NoID: true})
	// Not 404, after which clients discard their session.
	SessionStore = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal,
		Message: "session_store_unavailable", Reason: "session_store_unavailable", Kind: "session_store_unavailable"})

	// Invalid arguments of the search tool.
	search          = Refusal{Status: http.StatusBadRequest, Code: mcp.CodeInvalidParams, Message: mcp.MessageInvalidParams}
	SearchCursor    = define(*search.withReason("invalid_cursor"))
	SearchArguments = define(*search.withReason("search_arguments_invalid"))
	SearchQuery     = define(*search.withReason("search_query_required"))
	SearchQuerySize = define(*search.withReason("search_query_too_long"))
	SearchLimit     = define(*search.withReason("search_limit_invalid"))

	// A cursor of a merged list that was issued for another list or caller, or by nobody.
	Cursor = define(Refusal{Status: http.StatusOK, Code: mcp.CodeInvalidParams,
		Message: "the cursor was not issued for this list", Reason: "cursor_invalid", Kind: "cursor_invalid"})

	// Invalid arguments of the tool that calls another one.
	CallArguments = define(*search.withReason("call_arguments_invalid"))
	CallName      = define(*search.withReason("call_name_invalid"))

	// Messages that refer to a request that was never issued. They are acknowledged and not
	// forwarded: a response to a request that no upstream sent, and a progress notification
	// for one.
	UnknownResponse = define(Refusal{Status: http.StatusAccepted, Kind: "unknown_response"})
	UnknownProgress = define(Refusal{Status: http.StatusAccepted, Kind: "unknown_progress"})

	NoRoute = define(Refusal{Status: http.StatusNotFound, Code: mcp.CodeMethodNotFound,
		Message: mcp.MessageNoRoute, Reason: "no_route", Kind: "no_route"})
	// A request at the path of a view that does not exist, or whose conditions its caller
	// does not meet. The responses are the same.
	UnknownView = define(*NoRoute.withKind("unknown_view"))
	ViewDenied  = define(*NoRoute.withKind("view_denied"))
	NoStream    = define(Refusal{Status: http.StatusMethodNotAllowed, Code: mcp.CodeInvalidRequest,
		Message: "method_not_allowed", Reason: "method_not_allowed", Kind: "method_not_allowed", Allow: "POST", NullID: true})
	Unreachable = define(Refusal{Status: http.StatusBadGateway, Code: mcp.CodeInternal,
		Message: mcp.MessageUnreachable, Reason: "upstream_unreachable", Kind: "upstream_unreachable"})
	// More specific kinds for the audit line than the response has.
	DNS = define(*Unreachable.withKind("upstream_dns"))
	TLS = define(*Unreachable.withKind("upstream_tls"))
	// The upstream's client canceled the exchange itself.
	Canceled = define(*Unreachable.withKind("canceled"))
	Timeout  = define(Refusal{Status: http.StatusGatewayTimeout, Code: mcp.CodeInternal,
		Message: mcp.MessageUnreachable, Reason: "upstream_timeout", Kind: "upstream_timeout"})
	// No token for the upstream: upstreams[].credentials.
	UpstreamCredentials = define(Refusal{Status: http.StatusBadGateway, Code: mcp.CodeInternal,
		Message: "upstream_credentials", Reason: "upstream_credentials", Kind: "upstream_credentials"})
	// No operator is logged in at the upstream's authorization server.
	UpstreamLogin = define(*UpstreamCredentials.withReason("upstream_login_required"))
	// The upstream needs a token that is exchanged for the caller's, and the caller has
	// none.
	NoSubjectToken = define(Refusal{Status: http.StatusForbidden, Code: mcp.CodeUnauthorized,
		Message: "no_subject_token", Reason: "no_subject_token", Kind: "no_subject_token"})
	// The upstream needs the ID token of the caller, and the caller's token is another one.
	SubjectAudience = define(*NoSubjectToken.withReason("subject_token_audience"))
	// The process of a program upstream ended, or is not restarted yet.
	UpstreamExited = define(Refusal{Status: http.StatusBadGateway, Code: mcp.CodeInternal,
		Message: "upstream_exited", Reason: "upstream_exited", Kind: "upstream_exited", RetryAfter: time.Second})
	// More requests than upstreams[].max_in_flight, or more processes than the upstream may
	// have.
	UpstreamBusy = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal,
		Message: "upstream_busy", Reason: "upstream_busy", Kind: "upstream_busy", RetryAfter: time.Second})
	UpstreamInvalid = define(Refusal{Status: http.StatusBadGateway, Code: mcp.CodeInternal,
		Message: mcp.MessageUpstreamInvalid, Reason: "upstream_invalid", Kind: "upstream_invalid"})
	UpstreamTooLarge = define(Refusal{Status: http.StatusBadGateway, Code: mcp.CodeInternal,
		Message: mcp.MessageUpstreamInvalid, Reason: "upstream_response_too_large", Kind: "upstream_response_too_large"})
	// The upstream's own refusal, sent in plain text; it keeps its status.
	ByUpstream = define(Refusal{Status: http.StatusBadRequest, Code: mcp.CodeInvalidRequest,
		Message: "upstream_refused", Reason: "upstream_refused", Kind: "upstream_refused"})
	UpstreamAuth = define(Refusal{Status: http.StatusBadGateway, Code: mcp.CodeInternal,
		Message: "upstream_unauthorized", Reason: "upstream_unauthorized", Kind: "upstream_unauthorized"})

	// Refusals of the translation between protocol generations.
	RequestState = define(*search.withMessage("request_state_mismatch"))
	// A message, or a part of it, that does not exist in the other generation.
	Generation = define(Refusal{Status: http.StatusNotFound, Code: mcp.CodeMethodNotFound,
		Message: "generation_unsupported", Reason: "generation_unsupported", Kind: "generation_unsupported"})
	ClientInfo         = define(*search.withMessage("client_info"))
	ClientCapabilities = define(*search.withMessage("client_capabilities"))
	InputResponses     = define(*search.withMessage("input_responses"))
	Subscription       = define(*search.withMessage("subscription"))
	MirroredHeader     = define(Refusal{Status: http.StatusBadRequest, Code: mcp.CodeHeaderMismatch,
		Message: mcp.MessageHeaderMismatch, Reason: "header_mismatch_param", Kind: "header_mismatch_param"})
	RequestID = define(Refusal{Status: http.StatusBadRequest, Code: mcp.CodeInvalidRequest,
		Message: "request_id_in_use", Reason: "request_id_in_use", Kind: "request_id_in_use"})
	// A call that cannot continue after a server request of the upstream. Calls of tools get
	// a tool error.
	InputFailed = define(Refusal{Status: http.StatusOK, Code: mcp.CodeInternal,
		Message: "input_failed", Reason: "input_failed", Kind: "input_failed"})

	Version = define(Refusal{Status: http.StatusBadRequest, Code: mcp.CodeUnsupportedVersion,
		Message: mcp.MessageUnsupportedVersion, Reason: "unsupported_protocol_version", Kind: "unsupported_protocol_version"})
	// Reasons that end a stream before its response; the HTTP status stays 200.
	Truncated = define(Refusal{Status: http.StatusOK, Code: mcp.CodeInternal,
		Message: mcp.MessageTruncated, Reason: "sse_truncated", Kind: "sse_truncated"})
	Ended = define(Refusal{Status: http.StatusOK, Code: mcp.CodeInternal,
		Message: mcp.MessageUnreachable, Reason: "stream_ended", Kind: "stream_ended"})
	// The same, if the client can resume the stream and is expected to.
	EndedResumable = define(Refusal{Kind: "stream_ended"})
	Revoked        = define(Refusal{Status: http.StatusOK, Code: mcp.CodeUnauthorized,
		Message: mcp.MessageUnauthorized, Reason: "unauthorized", Kind: "key_revoked"})
	// Revoked also applies to a token that is no longer valid.
	TokenRevoked = define(*Revoked.withKind("token_revoked"))

	Answer = define(Refusal{Status: http.StatusOK, Code: mcp.CodePolicyDenied,
		Message: mcp.MessagePolicyDenied, Reason: "policy_denied"})
	ClientClosed = define(Refusal{Kind: "client_closed"})
	Replaced     = define(Refusal{Kind: "stream_replaced"})
	SessionEnd   = define(Refusal{Kind: "session_ended"})

	// The caller disconnected during a guardrail call: no rule has decided, and no response
	// is sent.
	CallerGone = define(*Unreachable.withKind("client_closed"))

	// Requests in flight when the gateway stopped. On a stream the status stays 200.
	Shutdown = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal,
		Message: "shutting_down", Reason: "shutting_down", Kind: "shutdown"})

	// Not a refusal: the definition of a tool has changed. The audit line is of kind event.
	ToolChanged = define(Refusal{Kind: "tool_definition_changed"})

	// Not a refusal: an operator has cleared the labels of a caller. The audit line is of kind event.
	LabelsCleared = define(Refusal{Kind: "labels_cleared"})

	// The labels that an answer sets for its caller could not be stored, so that the answer is withheld.
	Labels = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal, Action: audit.ActionDeny,
		Message: "labels_unavailable", Reason: "labels_unavailable", Kind: "labels_unavailable"})

	Audit = define(Refusal{Status: http.StatusServiceUnavailable, Code: mcp.CodeInternal,
		Message: "audit_unavailable", Reason: "audit_unavailable", Kind: "audit_unavailable"})
	Panic = define(Refusal{Status: http.StatusInternalServerError, Code: mcp.CodeInternal,
		Message: "internal_error", Reason: "internal_error", Kind: "panic"})
)

// ListenEnded reports whether a line is about an event stream that was opened to listen and that ended
// as such streams do: the client closed it, opened it again or ended its session, the gateway stopped,
// or there was no error.
func ListenEnded(r *audit.Record) bool {
	switch r.ErrorKind {
	case "", ClientClosed.Kind, Replaced.Kind, SessionEnd.Kind, Shutdown.Kind:
		return !r.IsError && audit.Listens(r)
	}
	return false
}
