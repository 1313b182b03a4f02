package gateway

import (
	"net/http"
	"slices"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/httpfield"
	"svc/gateway/refusal"
)

// Cross-origin requests of browsers (Fetch standard, CORS protocol) are answered
// for the origins that the file lists, and for no other: loopback origins that are
// permitted by default can send requests but not read the answers. Credentials
// that a browser holds by itself (cookies, client certificates) are never allowed.

const (
	corsMethods = "POST, GET, DELETE"
	corsMaxAge  = "600"
	// maxCORSHeaders bounds the requested header names that are looked at.
	maxCORSHeaders = 128
)

// The values of CORS headers. Nobody changes them.
var (
	corsExposed = []string{"Mcp-Session-Id, WWW-Authenticate, Retry-After"}
	corsVary    = []string{"Origin"}
)

// corsHeaders are the request headers that a page may set, in lower case, beside
// auth.header and Mcp-Param-*.
var corsHeaders = []string{
	"content-type", "accept", "authorization", "last-event-id",
	"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name",
	"traceparent", "tracestate", "baggage",
}

const corsParamPrefix = "mcp-param-"

// listed reports whether the file lists the origin of a request.
func (o *origins) listed(values []string) bool {
	return len(values) == 1 && o.allowed[strings.ToLower(values[0])]
}

// allowOrigin lets a page read the answer when its origin is listed.
func (l *live) allowOrigin(h http.Header, r *http.Request) {
	origin := r.Header["Origin"]
	if len(origin) == 0 || !l.origins.listed(origin) {
		return
	}
	h["Access-Control-Allow-Origin"] = origin
	h["Access-Control-Expose-Headers"] = corsExposed
	h["Vary"] = corsVary
}

// isPreflight reports whether a browser asks what a page of a listed origin may
// send.
func (l *live) isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Access-Control-Request-Method"]) == 1 && l.origins.listed(r.Header["Origin"])
}

// allowRequest writes the answer to a preflight.
func (l *live) allowRequest(h http.Header, r *http.Request) {
	h["Access-Control-Allow-Methods"] = []string{corsMethods}
	h["Access-Control-Max-Age"] = []string{corsMaxAge}
	if names := l.allowedHeaders(r.Header["Access-Control-Request-Headers"]); names != "" {
		h["Access-Control-Allow-Headers"] = []string{names}
	}
}

// allowedHeaders returns those of the requested headers that a page may set.
func (l *live) allowedHeaders(requested []string) string {
	var names []string
	seen := 0
	for _, list := range requested {
		for name := range strings.SplitSeq(list, ",") {
			if seen++; seen > maxCORSHeaders {
				return strings.Join(names, ", ")
			}
			name = strings.ToLower(strings.Trim(name, " \t"))
			if l.mayBeSet(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// mayBeSet reports whether a page may set a header, whose name is in lower case.
func (l *live) mayBeSet(name string) bool {
	return slices.Contains(corsHeaders, name) || strings.EqualFold(name, l.cfg.Auth.Header) && name != "" ||
		len(name) > len(corsParamPrefix) && strings.HasPrefix(name, corsParamPrefix) && httpfield.IsToken(name)
}

// answerPreflight answers a preflight for /mcp.
func (ex *exchange) answerPreflight() *refusal.Refusal {
	ex.rec.Action = audit.ActionAllow
	if err := ex.account(http.StatusNoContent, 0); err != nil {
		return &refusal.Audit
	}
	ex.live.allowRequest(ex.w.Header(), ex.r)
	ex.w.WriteHeader(http.StatusNoContent)
	return nil
}
