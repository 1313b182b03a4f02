package mcp

import (
	"strconv"
	"unicode/utf8"
)

// Codes of JSON-RPC errors (gateway specification, Errors).
const (
	CodeParseError     = -32700 // the body is not JSON
	CodeInvalidRequest = -32600 // the body is not a message, or is ambiguous
	CodeMethodNotFound = -32601 // also for no_route
	CodeInvalidParams  = -32602
	CodeInternal       = -32603 // also for upstream_unreachable

	CodeURLElicitation   = -32042 // up to 2025-11-25: the user must visit the addresses in error.data first
	CodeResourceNotFound = -32002 // up to 2025-11-25; CodeInvalidParams in 2026-07-28

	CodePolicyDenied       = -32001
	CodeRateLimited        = -32003 // only with HTTP 429: with other statuses SDKs interpret this code as a closed connection
	CodeUnauthorized       = -32005
	CodeHeaderMismatch     = -32020 // HeaderMismatch of the 2026-07-28 revision
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// Messages of the error object. They are part of the interface.
const (
	MessagePolicyDenied       = "policy_denied"
	MessageRateLimited        = "rate_limited"
	MessageUnauthorized       = "unauthorized"
	MessageInsufficientScope  = "insufficient_scope"
	MessageUnsupportedVersion = "unsupported_protocol_version"
	MessageNoRoute            = "no_route"
	MessageUnreachable        = "upstream_unreachable"
	MessageTooLarge           = "request_too_large"
	MessageHeaderMismatch     = "header_mismatch"
	MessageParseError         = "parse_error"
	MessageInvalidRequest     = "invalid_request"
	MessageInvalidParams      = "invalid_params"
	MessageTruncated          = "sse_truncated"
	MessageUpstreamInvalid    = "upstream_invalid"
)

// EmptyID is the id of a response to a notification in which the id must not be null: an
// error with a null id ends the session in some SDKs.
const EmptyID = `""`

// Message returns the message of the error object for a refusal.
func (e *Error) Message() string {
	switch e.Code {
	case CodeParseError:
		return MessageParseError
	case CodeInvalidParams:
		return MessageInvalidParams
	case CodeHeaderMismatch:
		return MessageHeaderMismatch
	}
	if e.Reason == faults[faultTooLarge].Reason {
		return MessageTooLarge
	}
	return MessageInvalidRequest
}

// ErrorBody is a JSON-RPC error response to write. Reason and RequestID become
// error.data.reason and error.data.request_id; no other internal detail of the gateway
// is included.
type ErrorBody struct {
	// ID is the id to echo as written; null when empty.
	ID        []byte
	Code      int
	Message   string
	Reason    string
	RequestID string
	// Executed becomes error.data.executed: the upstream had responded, so a retry may
	// execute the request twice. False is omitted.
	Executed bool
	// Supported and Requested become error.data.supported and error.data.requested of
	// [CodeUnsupportedVersion]; both are omitted when Supported is nil.
	Supported []string
	Requested string
	// Detail becomes error.data.message, for people; omitted when empty.
	Detail string
	// More are further members of error.data as JSON, each after a comma.
	More []byte
}

// AppendError appends a JSON-RPC error response on one line. An empty id is
// written as null. It does not allocate when dst has room.
func AppendError(dst, id []byte, code int, message, reason, requestID string) []byte {
	return AppendErrorBody(dst, &ErrorBody{ID: id, Code: code, Message: message, Reason: reason, RequestID: requestID})
}

// AppendErrorBody is [AppendError] with all fields.
func AppendErrorBody(dst []byte, e *ErrorBody) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if len(e.ID) == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, e.ID...)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	dst = append(dst, `,"data":{"reason":`...)
	dst = AppendString(dst, e.Reason)
	dst = append(dst, `,"request_id":`...)
	dst = AppendString(dst, e.RequestID)
	if e.Executed {
		dst = append(dst, `,"executed":true`...)
	}
	if e.Detail != "" {
		dst = append(dst, `,"message":`...)
		dst = AppendString(dst, e.Detail)
	}
	if e.Supported != nil {
		dst = append(dst, `,"supported":`...)
		dst = appendStrings(dst, e.Supported)
		dst = append(dst, `,"requested":`...)
		dst = AppendString(dst, e.Requested)
	}
	dst = append(dst, e.More...)
	return append(dst, "}}}"...)
}

// AppendErrorEvent appends an error response as a message event, for a response whose
// event stream has begun.
func AppendErrorEvent(dst []byte, e *ErrorBody) []byte {
	dst = append(dst, "event: message\ndata: "...)
	dst = AppendErrorBody(dst, e)
	return append(dst, "\n\n"...)
}

// AppendToolError appends the response to a tools/call whose result is an error that the
// model reads. stateless is set for clients of 2026-07-28.
func AppendToolError(dst, id []byte, text string, stateless bool) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":{"content":[{"type":"text","text":`...)
	dst = append(AppendString(dst, text), `}],"isError":true`...)
	if stateless {
		dst = append(dst, `,"resultType":"`+ResultComplete+`"`...)
	}
	return append(dst, "}}"...)
}

// AppendListenEnd appends the event that ends a subscriptions/listen stream normally:
// the result of the request, whose id is also the id of the subscription.
func AppendListenEnd(dst, id []byte) []byte {
	dst = append(dst, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":"...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":`...)
	dst = append(dst, id...)
	return append(dst, "}}}\n\n"...)
}

// appendStrings appends an array of strings.
func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}

// AppendString appends s as a JSON string in the shortest form. Bytes that are
// not UTF-8 become U+FFFD, so that the result is always valid JSON.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscaped(dst, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			start = i
			continue
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends a character that a JSON string must escape: a control
// character, a quote or a backslash.
func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
