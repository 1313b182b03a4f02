package intake

import (
	"net/http"
	"strings"

	"svc/gateway/headers"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
)

// HeaderVersion is the canonical form of mcp.HeaderProtocolVersion.
const HeaderVersion = "Mcp-Protocol-Version"

// Dialect determines the protocol revision of a message. It refuses a revision that is not served
// (gateway specification, Versioning), and headers that do not match the body if the revision
// requires it.
func Dialect(h http.Header, m *mcp.Message, allowed mcp.Allowed) (mcp.Dialect, *refusal.Refusal) {
	version, ok := headers.Single(h, HeaderVersion)
	if !ok {
		return mcp.Dialect{}, &refusal.Header
	}
	d := mcp.ResolveDialect(m, version)
	if !allowed.Allows(d) {
		refused := refusal.Version
		refused.Versions, refused.Requested = allowed, d.Version
		return d, &refused
	}
	err := mcp.CheckMirrored(m, d, mcp.Mirrored{
		Version: version,
		Method:  strings.Join(h["Mcp-Method"], ","),
		Name:    strings.Join(h["Mcp-Name"], ","),
	})
	if err != nil {
		return d, refusal.OfMessage(err)
	}
	return d, nil
}

// Negotiate replaces the revision of an initialize by an allowed one if its own is not: SDKs
// request their newest revision, and their next request would be refused.
func Negotiate(m *mcp.Message, allowed mcp.Allowed) *refusal.Refusal {
	body, changed := allowed.RewriteInitialize(m)
	if !changed {
		return nil
	}
	if err := mcp.Scan(body, m); err != nil {
		return refusal.OfMessage(err)
	}
	return nil
}
