package translate

import (
	"crypto/rand"

	"svc/gateway/mcp"
)

// asksToVisit reports whether the parameters of an elicitation ask the user to visit an
// address.
func asksToVisit(body []byte, params mcp.Span) bool {
	mode, _ := mcp.StringValue(mcp.Find(body, params, "mode").Of(body))
	return mode == "url"
}

// declaresVisits reports whether the client supports elicitations in mode url. The
// capability has a member for it: an empty one supports forms only.
func (h *hello) declaresVisits() bool {
	whole := mcp.Span{End: len(h.Capabilities)}
	return mcp.Find(h.Capabilities, mcp.Find(h.Capabilities, whole, "elicitation"), "url").Present()
}

// identified returns the parameters of an elicitation in mode url with an elicitationId,
// which 2025-11-25 requires and 2026-07-28 does not have. Nothing refers to the id, because
// notifications/elicitation/complete does not exist in 2026-07-28.
func identified(body []byte, params mcp.Span) []byte {
	if mcp.Find(body, params, "elicitationId").Present() {
		return params.Of(body)
	}
	return mcp.AppendObject(nil, body, params, nil, mcp.Member{Name: "elicitationId", Value: mcp.AppendString(nil, rand.Text())})
}
