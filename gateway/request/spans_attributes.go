package request

import (
	"net/http"
	"strconv"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/telemetry"
)

// otherName is the value of the semantic conventions for what has no name, or none of a fixed set.
const otherName = "_OTHER"

// decision returns mcp.policy.decision: the effect of a rule on the request, if the rule did more
// than allow it. It is empty for a refusal that no rule caused.
func decision(r *audit.Record) string {
	switch {
	case r.GuardrailName != "":
		return "guardrail"
	case len(r.PoliciesFired) > 0 && r.Action != audit.ActionAllow:
		return r.Action // a policy of the control plane denied, whichever rule allowed the request
	case r.RuleID == "" || r.Action == audit.ActionAllow:
		return ""
	}
	return r.Action
}

// errorType returns error.type: why the request failed, empty when it did not, and when a stream that
// the client opened to listen ended as such streams do.
func errorType(r *audit.Record) string {
	switch {
	case r.ErrorKind != "" && refusal.ListenEnded(r):
		return ""
	case r.ErrorKind != "":
		return r.ErrorKind
	case r.Action == audit.ActionDeny:
		return refusal.Policy.Reason
	case r.Action == audit.ActionRateLimitBlocked:
		return refusal.Rate.Reason
	case r.Status >= 500:
		return strconv.Itoa(r.Status)
	case r.IsError:
		return otherName
	}
	return ""
}

// upstreamErrorType returns error.type of the upstream's part of a request: empty when the gateway
// itself refused the request or the answer.
func upstreamErrorType(r *audit.Record) string {
	if r.Action == audit.ActionDeny || r.Action == audit.ActionRateLimitBlocked {
		return ""
	}
	return errorType(r)
}

// addConventions adds the attributes of the OpenTelemetry conventions for MCP that the gateway
// specification does not name.
func (ex *Exchange) addConventions(s *telemetry.Span) {
	s.Session, s.ClientAddress, s.HTTPVersion = ex.record.Session, ex.record.ClientIP, httpVersion(ex.HTTP)
	if m := &ex.Message; m.Kind == mcp.Request {
		s.MessageID = string(m.ID)
		if n := len(s.MessageID); n >= 2 && s.MessageID[0] == '"' {
			s.MessageID = s.MessageID[1 : n-1]
		}
	}
	switch ex.Message.Method {
	case mcp.MethodPromptsGet:
		s.Prompt = ex.Message.Name
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodDirectoryRead, mcp.MethodSkillsGet:
		s.URI = withoutSecrets(ex.Message.URI)
	}
	if up := ex.route.Upstream; up != nil {
		s.UpstreamNetwork, s.UpstreamHost, s.UpstreamPort = up.Network, up.Host, up.Port
		s.UpstreamErrorType = upstreamErrorType(&ex.record)
	}
}

// operation returns the label set of the metrics of the conventions, without text of the message.
func (ex *Exchange) operation() (o telemetry.Operation) {
	if ex.record.Method == "" {
		return o
	}
	o.Method, o.ErrorType = mcp.MethodOf(ex.record.Method).Name, knownError(errorType(&ex.record))
	if o.Method == "" {
		o.Method = otherName
	}
	o.Version = knownRevision(ex.dialect.Version)
	if up := ex.route.Upstream; up != nil && !ex.times.sentUp.IsZero() {
		o.Network, o.Host, o.Port = up.Network, up.Host, up.Port
		o.UpstreamErrorType = knownError(upstreamErrorType(&ex.record))
	}
	return o
}

// knownError returns an error type for a metric: the status of an upstream only when it is a
// registered one.
func knownError(errorType string) string {
	if errorType == "" || errorType[0] < '0' || errorType[0] > '9' {
		return errorType // the names of errors are a fixed set
	}
	if status, err := strconv.Atoi(errorType); err != nil || http.StatusText(status) == "" {
		return otherName
	}
	return errorType
}

// knownRevision returns a constant for a revision that the gateway knows, empty for others: the
// metrics keep it longer than the body of the message.
func knownRevision(version string) string {
	switch version {
	case mcp.Revision20241105:
		return mcp.Revision20241105
	case mcp.Revision20250326:
		return mcp.Revision20250326
	case mcp.Revision20250618:
		return mcp.Revision20250618
	case mcp.Revision20251125:
		return mcp.Revision20251125
	case mcp.Revision20260728:
		return mcp.Revision20260728
	}
	return ""
}

// httpVersion returns network.protocol.version.
func httpVersion(r *http.Request) string {
	switch {
	case r.ProtoMajor == 2:
		return "2"
	case r.ProtoMajor == 1 && r.ProtoMinor == 0:
		return "1.0"
	case r.ProtoMajor == 1:
		return "1.1"
	}
	return ""
}

// withoutSecrets returns a URI without user information, query and fragment, which may contain
// credentials.
func withoutSecrets(uri string) string {
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	authority, path, slash := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	if slash {
		path = "/" + path
	}
	return scheme + "://" + authority + path
}
