package request

import (
	"net/http"
	"slices"
	"strings"

	"svc/gateway/mcp"
)

// Cross-origin requests of browsers (Fetch standard, CORS protocol) are allowed
// for the origins that the config lists, and for no others: loopback origins that
// are permitted by default can send requests but not read the responses.
// Credentials that a browser adds by itself (cookies, client certificates) are
// never allowed.

const (
	corsMethods = "POST, GET, DELETE"
	corsMaxAge  = "600"
	// MaxCORSHeaders bounds the requested header names that are checked.
	MaxCORSHeaders = 128
)

// The values of CORS headers. They are never modified.
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

// listed reports whether the config lists the origin of a request.
func (o *OriginRules) listed(values []string) bool {
	return len(values) == 1 && o.allowed[strings.ToLower(values[0])]
}

// AllowOrigin permits a page to read the response if its origin is listed.
func (o *OriginRules) AllowOrigin(h http.Header, r *http.Request) {
	origin := r.Header["Origin"]
	if len(origin) == 0 || !o.listed(origin) {
		return
	}
	h["Access-Control-Allow-Origin"] = origin
	h["Access-Control-Expose-Headers"] = corsExposed
	h["Vary"] = corsVary
}

// IsPreflight reports whether a request is a CORS preflight of a listed origin.
func (o *OriginRules) IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Access-Control-Request-Method"]) == 1 && o.listed(r.Header["Origin"])
}

// AllowRequest writes the response to a preflight.
func (o *OriginRules) AllowRequest(h http.Header, r *http.Request) {
	h["Access-Control-Allow-Methods"] = []string{corsMethods}
	h["Access-Control-Max-Age"] = []string{corsMaxAge}
	if names := o.allowedHeaders(r.Header["Access-Control-Request-Headers"]); names != "" {
		h["Access-Control-Allow-Headers"] = []string{names}
	}
}

// allowedHeaders returns those of the requested headers that a page may set.
func (o *OriginRules) allowedHeaders(requested []string) string {
	var names []string
	seen := 0
	for _, list := range requested {
		for name := range strings.SplitSeq(list, ",") {
			if seen++; seen > MaxCORSHeaders {
				return strings.Join(names, ", ")
			}
			name = strings.ToLower(strings.Trim(name, " \t"))
			if o.mayBeSet(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// mayBeSet reports whether a page may set a header; the name must be in lower
// case.
func (o *OriginRules) mayBeSet(name string) bool {
	return slices.Contains(corsHeaders, name) || strings.EqualFold(name, o.authHeader) && name != "" ||
		len(name) > len(corsParamPrefix) && strings.HasPrefix(name, corsParamPrefix) && mcp.IsToken(name)
}
