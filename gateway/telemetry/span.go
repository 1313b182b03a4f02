package telemetry

import (
	"time"
	"unicode/utf8"
)

// maxStages bounds the children of one request's span.
const maxStages = 6

// maxText bounds one text attribute, in bytes.
const maxText = 256

// Stage is a part of a request: a child span.
type Stage struct {
	Name  string
	Start time.Time
	End   time.Time
	// Upstream marks the stage that called the upstream. This stage is the parent of the
	// upstream's own spans.
	Upstream bool
}

// Span is the data of one request's span (gateway specification, Spans). Empty fields
// are omitted.
type Span struct {
	Trace      Trace
	Start, End time.Time

	// HTTPMethod is the method of the HTTP request.
	HTTPMethod string
	// Method is the JSON-RPC method: mcp.method.name.
	Method string
	// Tool is the tool of a tools/call: gen_ai.tool.name.
	Tool string
	// Prompt is the prompt of a prompts/get: gen_ai.prompt.name.
	Prompt string
	// URI is the resource of a request: mcp.resource.uri. It has neither user information nor
	// query.
	URI string
	// MessageID is the id of a request, without quotes: jsonrpc.request.id.
	MessageID string
	// Session is mcp.session.id: the id in audit lines, which cannot be used to access the
	// session.
	Session string
	// ClientAddress is client.address.
	ClientAddress string
	// HTTPVersion is network.protocol.version of the client's connection, such as 1.1.
	HTTPVersion string
	// Version is the protocol revision: mcp.protocol.version.
	Version string
	// Status is http.response.status_code.
	Status int
	// ErrorType is error.type; with one the span's status is an error.
	ErrorType string

	// Decision is mcp.policy.decision: deny, redact, rate_limit_blocked, strip_app or
	// guardrail; otherwise empty.
	Decision string
	// RuleID is mcp.policy.rule_id.
	RuleID string
	// Approval, ApprovalID and ApprovedBy are svc.approval, svc.approval_id and svc.approved_by: of a
	// call that a person has to approve.
	Approval, ApprovalID, ApprovedBy string
	// Labels and Sets are svc.labels and svc.sets, names with commas between: the labels that the
	// caller had, and those that the answer set.
	Labels, Sets []string
	// RequestID is svc.request_id: the id in the audit line and in the trace.
	RequestID string
	// Reason is svc.reason: the data.reason that the client got.
	Reason string
	// Upstream is mcp.upstream.
	Upstream string
	// UpstreamNetwork, UpstreamHost and UpstreamPort are network.transport, server.address and
	// server.port of the upstream.
	UpstreamNetwork, UpstreamHost string
	UpstreamPort                  int
	// UpstreamErrorType is error.type of the stage that called the upstream.
	UpstreamErrorType string
	// Principal is mcp.principal.
	Principal string
	// OAuthClientName is mcp.auth.oauth_client_name.
	OAuthClientName string
	// ClientName and ClientVersion are mcp.client.name and mcp.client.version: the
	// client's self-declared name and version.
	ClientName, ClientVersion string
	// TaskHandle is mcp.task.handle.
	TaskHandle string

	// GuardrailName, GuardrailVerdict and GuardrailLatency are mcp.guardrail.name,
	// mcp.guardrail.verdict and mcp.guardrail.latency_ms.
	GuardrailName    string
	GuardrailVerdict string
	GuardrailLatency time.Duration

	stages  [maxStages]Stage
	nStages int
}

// AddStage adds a child span; stages beyond the limit are dropped.
func (s *Span) AddStage(st Stage) {
	if s.nStages < maxStages {
		s.stages[s.nStages] = st
		s.nStages++
	}
}

// bound truncates the texts that are arbitrary input.
func (s *Span) bound() {
	for _, t := range [...]*string{&s.Method, &s.Tool, &s.Prompt, &s.URI, &s.MessageID, &s.Version, &s.Principal, &s.OAuthClientName, &s.ClientName, &s.ClientVersion, &s.TaskHandle} {
		*t = bounded(*t)
	}
}

// bounded truncates a text to maxText, between characters.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// httpMethod returns a method as http.request.method defines it: one of a fixed set.
func httpMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		return method
	}
	return "_OTHER"
}

// appendName appends the span's name: the JSON-RPC method and its tool or prompt, as the
// conventions for MCP define it, or method and path of the HTTP request if no JSON-RPC
// method was read.
func (s *Span) appendName(dst []byte) []byte {
	switch {
	case s.Method == "":
		method := httpMethod(s.HTTPMethod)
		if method == "_OTHER" {
			method = "HTTP"
		}
		return append(append(dst, method...), " /mcp"...)
	case s.Tool == "" && s.Prompt == "":
		return append(dst, s.Method...)
	}
	return append(append(append(append(dst, s.Method...), ' '), s.Tool...), s.Prompt...) // one of the two is empty
}
