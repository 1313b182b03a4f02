package gateway

import (
	"net/http"
	"slices"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Headers pass by allowlist in both directions, so that neither a caller's
// credential nor an upstream's challenge ever crosses. The names are in the
// canonical form of net/http.
var (
	// requestHeaders go to the upstream as they came.
	requestHeaders = [...]string{
		"Accept", "Content-Type", "Traceparent", "Tracestate", "Baggage",
	}
	// responseHeaders go to the client. Content-Type is written by whoever
	// writes the body, and the session id is the gateway's own.
	responseHeaders = [...]string{"Mcp-Protocol-Version", "Retry-After"}
)

const (
	headerVersion  = "Mcp-Protocol-Version" // the canonical form of mcp.HeaderProtocolVersion
	maxParamHeader = 64                     // Mcp-Param headers that are passed on
)

// appendHeader appends the header of the request for an upstream to h, which must be
// empty, without what the transport adds for the session.
func (ex *exchange) appendHeader(h upstream.Header) upstream.Header {
	from := ex.r.Header
	bound := connectionHeaders(from["Connection"])
	for _, name := range requestHeaders {
		if bound.has(name) {
			continue
		}
		for _, v := range from[name] {
			h.Add(name, v)
		}
	}
	h.Add(upstream.HeaderHops, ex.hops)
	ex.passTrace(&h)
	ex.mirror(&h)
	params := 0
	for name, values := range from {
		if strings.HasPrefix(name, mcp.HeaderParamPrefix) && params < maxParamHeader && !bound.has(name) {
			params++
			for _, v := range values {
				if v, ok := ex.param(v); ok {
					h.Add(name, v)
				}
			}
		}
	}
	for _, name := range ex.live.forwardHeaders {
		if !h.Has(name) && !bound.has(name) {
			for _, v := range from[name] {
				h.Add(name, v)
			}
		}
	}
	return h
}

// mirror passes on Mcp-Method and Mcp-Name as far as they mirror the message
// that is sent: an upstream that goes by them must not read another one.
func (ex *exchange) mirror(h *upstream.Header) {
	if v, ok := single(ex.r.Header, "Mcp-Method"); ok && v != "" && v == ex.msg.Method {
		h.Add(mcp.HeaderMethod, v)
	}
	v, ok := single(ex.r.Header, "Mcp-Name")
	if !ok || v == "" {
		return
	}
	name, mirrored := ex.msg.MirroredName()
	if plain, ok := mcp.DecodeHeader(v); mirrored && ok && plain == name {
		h.Add(mcp.HeaderName, v)
	}
}

// bound are the names of headers that belong to one connection, because its
// Connection header lists them; nil where it lists none.
type bound []string

func connectionHeaders(values []string) bound {
	var names bound
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			switch name = strings.TrimSpace(name); strings.ToLower(name) {
			case "", "close", "keep-alive":
			default:
				names = append(names, name)
			}
		}
	}
	return names
}

func (b bound) has(name string) bool {
	for _, s := range b {
		if strings.EqualFold(s, name) {
			return true
		}
	}
	return false
}

// param returns a header that mirrors an argument as it is after a redaction or
// a mask: it must neither disagree with the body nor carry what was redacted. ok is false
// when it can only be left out.
func (ex *exchange) param(value string) (mirrored string, ok bool) {
	if ex.governed.changed || ex.governed.set.Scans(govern.Request) {
		return ex.governParam(value)
	}
	if ex.rec.Action != audit.ActionRedact {
		return value, true
	}
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return "", false
	}
	plain, ok = ex.decision.Rule.RedactParam(&ex.msg, plain)
	return mcp.EncodeHeader(plain), ok
}

// copyHeader takes over what may pass from the upstream's answer.
func (ex *exchange) copyHeader(from upstream.Header) {
	to := ex.w.Header()
	bound := connectionHeaders(from.Values("Connection"))
	for _, name := range responseHeaders {
		if v := from.Get(name); v != "" {
			to[name] = []string{v}
		}
	}
	for _, name := range ex.live.forwardHeaders {
		if vs := from.Values(name); len(vs) > 0 && !bound.has(name) {
			switch {
			case strings.HasPrefix(name, "Access-Control-"): // what a page may read is decided here
			case name == "Vary":
				to[name] = append(slices.Clip(to[name]), vs...)
			default:
				to[name] = vs
			}
		}
	}
	if sid := ex.clientSession(from.Get(mcp.HeaderSession)); sid != "" {
		to[mcp.HeaderSession] = []string{sid}
	}
}

// canonicalHeaders prepares forward_headers for look-ups. Names that the
// gateway must decide on itself are refused by the configuration.
func canonicalHeaders(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = http.CanonicalHeaderKey(name)
	}
	return out
}

// single returns the value of a header that may stand once; ok is false when
// it stands more often.
func single(h http.Header, name string) (value string, ok bool) {
	values := h[name]
	switch len(values) {
	case 0:
		return "", true
	case 1:
		return values[0], true
	}
	return "", false
}

// resolveDialect finds the protocol revision of the request, once, and refuses
// one that is not served (gateway specification, Versioning), or headers that
// do not agree with the body where the revision demands that they do.
func (ex *exchange) resolveDialect() *refusal.Refusal {
	version, ok := single(ex.r.Header, headerVersion)
	if !ok {
		return &refusal.Header
	}
	ex.dialect = mcp.ResolveDialect(&ex.msg, version)
	if !ex.g.versions.Allows(ex.dialect) {
		refused := refusal.Version
		refused.Versions, refused.Requested = ex.g.versions, ex.dialect.Version
		return &refused
	}
	err := mcp.CheckMirrored(&ex.msg, ex.dialect, mcp.Mirrored{
		Version: version,
		Method:  strings.Join(ex.r.Header["Mcp-Method"], ","),
		Name:    strings.Join(ex.r.Header["Mcp-Name"], ","),
	})
	if err != nil {
		return refusal.OfMessage(err)
	}
	return nil
}
