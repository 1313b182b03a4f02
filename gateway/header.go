package gateway

import (
	"net/http"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/headers"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// headerVersion is the canonical form of mcp.HeaderProtocolVersion.
const headerVersion = "Mcp-Protocol-Version"

// appendHeader appends the header of the request for an upstream to h, which must be
// empty, without what the transport adds for the session.
func (ex *exchange) appendHeader(h upstream.Header) upstream.Header {
	r := headers.Request{
		From: ex.r.Header, Message: &ex.msg, Hops: ex.hops, Forward: ex.live.forwardHeaders, Rewriter: headerRewriter{ex},
	}
	return r.Append(h)
}

// headerRewriter changes header fields on their way to the upstream.
type headerRewriter struct{ ex *exchange }

func (h headerRewriter) Trace(to upstream.Header) upstream.Header {
	h.ex.passTrace(&to)
	return to
}

func (h headerRewriter) Param(value string) (string, bool) {
	ex := h.ex
	p := verdict.Params{
		Message: &ex.msg, Rule: ex.decision.Rule, Redacted: ex.rec.Action == audit.ActionRedact,
		Policies: ex.governed.set, Fired: ex.governed.fired, Changed: ex.governed.changed,
	}
	return p.Rewrite(value)
}

// copyHeader takes over what may pass from the upstream's answer.
func (ex *exchange) copyHeader(from upstream.Header) {
	to := ex.w.Header()
	headers.CopyResponse(to, from, ex.live.forwardHeaders)
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

// resolveDialect finds the protocol revision of the request, once, and refuses
// one that is not served (gateway specification, Versioning), or headers that
// do not agree with the body where the revision demands that they do.
func (ex *exchange) resolveDialect() *refusal.Refusal {
	version, ok := headers.Single(ex.r.Header, headerVersion)
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
