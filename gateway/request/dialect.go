package request

import (
	"net/http"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
)

// HeaderVersion is the canonical form of mcp.HeaderProtocolVersion.
const HeaderVersion = "Mcp-Protocol-Version"

// dialect determines the protocol revision of a message. It refuses a revision that is not served
// (gateway specification, Versioning), and headers that contradict the body if the revision
// requires them. absent is the error for what the revision requires and neither the header nor the
// body has: the server judges it, and the gateway where it answers itself.
func dialect(h http.Header, m *mcp.Message, allowed mcp.Allowed) (d mcp.Dialect, refused *refusal.Refusal, absent error) {
	version, ok := mcp.Single(h, HeaderVersion)
	if !ok {
		return mcp.Dialect{}, &refusal.Header, nil
	}
	d = mcp.ResolveDialect(m, version)
	if !allowed.Allows(d) {
		refused := refusal.Version
		refused.Versions, refused.Requested = allowed, d.Version
		return d, &refused, nil
	}
	mirrored := mcp.Mirrored{
		Version: version,
		Method:  strings.Join(h["Mcp-Method"], ","),
		Name:    strings.Join(h["Mcp-Name"], ","),
	}
	if err := mcp.CheckContradiction(m, d, mirrored); err != nil {
		return d, refusal.OfMessage(err), nil
	}
	return d, nil, mcp.CheckMirrored(m, d, mirrored)
}

// Negotiate replaces the revision of an initialize by an allowed one if its own is not: SDKs
// request their newest revision, and their next request would be refused.
func (ex *Exchange) Negotiate() *refusal.Refusal {
	body, changed := ex.Services.Versions.RewriteInitialize(&ex.Message)
	if !changed {
		return nil
	}
	if err := mcp.Scan(body, &ex.Message); err != nil {
		return refusal.OfMessage(err)
	}
	return nil
}
