package gateway

import (
	"net/http"
	"time"

	"svc/gateway/mcp"
)

// refusal is an answer that the gateway gives in the upstream's place (gateway
// specification, Errors). The values are a table: one for each reason, never
// changed; what belongs to one request (Retry-After, a challenge) is added to
// a copy.
type refusal struct {
	status  int    // HTTP
	code    int    // JSON-RPC
	message string // JSON-RPC
	reason  string // data.reason: stable, for programs
	// kind is the audit line's error_kind; empty where the action says it all.
	kind string
	// action is the audit line's action; empty means deny, or what policy had
	// decided before.
	action string
	// rule is the audit line's rule_id; never sent to the client.
	rule string

	retryAfter time.Duration
	challenge  string // WWW-Authenticate
	allow      string // Allow
	// versions is set on unsupported_protocol_version: data.supported.
	versions  []string
	requested string
	// nullID answers with id null: nothing of the body has been read.
	nullID bool
}

func (r refusal) after(d time.Duration) *refusal {
	r.retryAfter = d
	return &r
}

func (r refusal) withRule(id string) *refusal {
	r.rule = id
	return &r
}

func (r refusal) withReason(reason string) *refusal {
	r.reason, r.kind = reason, reason
	return &r
}

func (r refusal) withKind(kind string) *refusal {
	r.kind = kind
	return &r
}

// Audit actions (gateway specification, Audit records).
const (
	actionAllow            = "allow"
	actionDeny             = "deny"
	actionRedact           = "redact"
	actionRateLimitBlocked = "rate_limit_blocked"
	actionStripApp         = "strip_app"
)

// The refusals.
var (
	refusePolicy = refusal{status: http.StatusForbidden, code: mcp.CodePolicyDenied,
		message: "policy_denied", reason: "policy_denied", action: actionDeny}
	refuseRedact = refusal{status: http.StatusForbidden, code: mcp.CodePolicyDenied,
		message: "policy_denied", reason: "policy_denied", action: actionDeny, kind: "redact_invalid"}
	refuseRate = refusal{status: http.StatusTooManyRequests, code: mcp.CodeRateLimited,
		message: "rate_limited", reason: "rate_limited", action: actionRateLimitBlocked}
	refuseRateStore = refusal{status: http.StatusTooManyRequests, code: mcp.CodeRateLimited,
		message: "rate_limited", reason: "rate_limit_store_unavailable", action: actionRateLimitBlocked, kind: "rate_limit_store_unavailable"}
	refuseInputRate = refusal{status: http.StatusTooManyRequests, code: mcp.CodeRateLimited,
		message: "rate_limited", reason: "input_rate_limited", action: actionRateLimitBlocked, kind: "input_rate_limited", nullID: true}

	refuseUnauthorized = refusal{status: http.StatusUnauthorized, code: mcp.CodeUnauthorized,
		message: "unauthorized", reason: "unauthorized", kind: "unauthorized"}
	refuseScope = refusal{status: http.StatusForbidden, code: mcp.CodeUnauthorized,
		message: "insufficient_scope", reason: "insufficient_scope", kind: "insufficient_scope"}
	refuseNoKeySet = refusal{status: http.StatusServiceUnavailable, code: mcp.CodeInternal,
		message: "issuer_unavailable", reason: "issuer_unavailable", kind: "issuer_unavailable"}
	refuseAuthBusy = refusal{status: http.StatusTooManyRequests, code: mcp.CodeRateLimited,
		message: "rate_limited", reason: "authentication_busy", kind: "authentication_busy"}

	refuseOrigin = refusal{status: http.StatusForbidden, code: mcp.CodeInvalidRequest,
		message: "origin_not_allowed", reason: "origin_not_allowed", kind: "origin_not_allowed"}
	// The request has passed too many gateways: one of them leads back to another.
	refuseLoop = refusal{status: http.StatusLoopDetected, code: mcp.CodeInternal,
		message: "loop_detected", reason: "loop_detected", kind: "loop_detected"}
	refuseMethod = refusal{status: http.StatusMethodNotAllowed, code: mcp.CodeInvalidRequest,
		message: "method_not_allowed", reason: "method_not_allowed", kind: "method_not_allowed", allow: "GET, POST, DELETE", nullID: true}
	refuseOverloaded = refusal{status: http.StatusServiceUnavailable, code: mcp.CodeInternal,
		message: "overloaded", reason: "overloaded", kind: "overloaded", retryAfter: time.Second}
	refuseMediaType = refusal{status: http.StatusUnsupportedMediaType, code: mcp.CodeInvalidRequest,
		message: "unsupported_media_type", reason: "unsupported_media_type", kind: "unsupported_media_type"}
	refuseTooLarge = refusal{status: http.StatusRequestEntityTooLarge, code: mcp.CodeInvalidRequest,
		message: "request_too_large", reason: "request_too_large", kind: "request_too_large"}
	refuseSlowBody = refusal{status: http.StatusRequestTimeout, code: mcp.CodeInvalidRequest,
		message: "body_timeout", reason: "body_timeout", kind: "body_timeout"}
	refuseUnreadable = refusal{status: http.StatusBadRequest, code: mcp.CodeInvalidRequest,
		message: "body_unreadable", reason: "body_unreadable", kind: "body_unreadable"}
	refuseHeader = refusal{status: http.StatusBadRequest, code: mcp.CodeInvalidRequest,
		message: "invalid_header", reason: "invalid_header", kind: "invalid_header"}
	refuseSession = refusal{status: http.StatusNotFound, code: mcp.CodeInvalidRequest,
		message: "session_not_found", reason: "session_not_found", kind: "session_not_found"}
	// Not 404, after which clients give their session up.
	refuseSessionStore = refusal{status: http.StatusServiceUnavailable, code: mcp.CodeInternal,
		message: "session_store_unavailable", reason: "session_store_unavailable", kind: "session_store_unavailable"}

	// What the search tool cannot take; the reason says what.
	refuseSearch = refusal{status: http.StatusBadRequest, code: mcp.CodeInvalidParams,
		message: mcp.MessageInvalidParams, reason: "invalid_params", kind: "invalid_params"}

	refuseNoRoute = refusal{status: http.StatusNotFound, code: mcp.CodeMethodNotFound,
		message: "no_route", reason: "no_route", kind: "no_route"}
	refuseNoStream = refusal{status: http.StatusMethodNotAllowed, code: mcp.CodeInvalidRequest,
		message: "method_not_allowed", reason: "method_not_allowed", kind: "method_not_allowed", allow: "POST", nullID: true}
	refuseUnreachable = refusal{status: http.StatusBadGateway, code: mcp.CodeInternal,
		message: "upstream_unreachable", reason: "upstream_unreachable", kind: "upstream_unreachable"}
	// What the audit line can say more exactly than the answer does.
	refuseDNS     = *refuseUnreachable.withKind("upstream_dns")
	refuseTLS     = *refuseUnreachable.withKind("upstream_tls")
	refuseTimeout = refusal{status: http.StatusGatewayTimeout, code: mcp.CodeInternal,
		message: "upstream_unreachable", reason: "upstream_timeout", kind: "upstream_timeout"}
	refuseUpstreamInvalid = refusal{status: http.StatusBadGateway, code: mcp.CodeInternal,
		message: "upstream_invalid", reason: "upstream_invalid", kind: "upstream_invalid"}
	refuseUpstreamTooLarge = refusal{status: http.StatusBadGateway, code: mcp.CodeInternal,
		message: "upstream_invalid", reason: "upstream_response_too_large", kind: "upstream_response_too_large"}
	// The upstream's own refusal, said in plain text; it keeps its status.
	refuseByUpstream = refusal{status: http.StatusBadRequest, code: mcp.CodeInvalidRequest,
		message: "upstream_refused", reason: "upstream_refused", kind: "upstream_refused"}
	refuseUpstreamAuth = refusal{status: http.StatusBadGateway, code: mcp.CodeInternal,
		message: "upstream_unauthorized", reason: "upstream_unauthorized", kind: "upstream_unauthorized"}

	refuseVersion = refusal{status: http.StatusBadRequest, code: mcp.CodeUnsupportedVersion,
		message: mcp.MessageUnsupportedVersion, reason: "unsupported_protocol_version", kind: "unsupported_protocol_version"}
	// What ends a stream before its request was answered; status stays 200.
	refuseTruncated = refusal{status: http.StatusOK, code: mcp.CodeInternal,
		message: mcp.MessageTruncated, reason: "sse_truncated", kind: "sse_truncated"}
	refuseEnded = refusal{status: http.StatusOK, code: mcp.CodeInternal,
		message: "upstream_unreachable", reason: "stream_ended", kind: "stream_ended"}
	refuseRevoked = refusal{status: http.StatusOK, code: mcp.CodeUnauthorized,
		message: mcp.MessageUnauthorized, reason: "unauthorized", kind: "key_revoked"}
	// So does a token that is no longer good.
	refuseTokenRevoked = *refuseRevoked.withKind("token_revoked")

	refuseAnswer = refusal{status: http.StatusOK, code: mcp.CodePolicyDenied,
		message: mcp.MessagePolicyDenied, reason: "policy_denied"}
	refuseClientClosed = refusal{kind: "client_closed"}
	refuseReplaced     = refusal{kind: "stream_replaced"}
	refuseSessionEnd   = refusal{kind: "session_ended"}

	// What was in flight when the gateway stopped. On a stream the status stays 200.
	refuseShutdown = refusal{status: http.StatusServiceUnavailable, code: mcp.CodeInternal,
		message: "shutting_down", reason: "shutting_down", kind: "shutdown"}

	refuseAudit = refusal{status: http.StatusServiceUnavailable, code: mcp.CodeInternal,
		message: "audit_unavailable", reason: "audit_unavailable", kind: "audit_unavailable"}
	refusePanic = refusal{status: http.StatusInternalServerError, code: mcp.CodeInternal,
		message: "internal_error", reason: "internal_error", kind: "panic"}
)
