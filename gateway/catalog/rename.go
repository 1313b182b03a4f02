package catalog

import "svc/gateway/mcp"

// Apply rewrites the list in the answer m of an upstream: names become those that clients see,
// and hidden items are removed. Other answers are not changed. asked is the method of the
// request; resumed is set when the request is not known. ok is false for an answer that parsers
// can read in two ways. Nil Names change nothing.
func (n *Names) Apply(upstream, asked string, resumed bool, m *mcp.Message) (ok bool) {
	if n == nil || m.Kind != mcp.Response || m.IsError {
		return true
	}
	for _, kind := range mcp.ListKinds {
		if !kind.Named() || !resumed && kind.Method() != asked {
			continue
		}
		body, changed, ok := mcp.MapList(m, kind.Member(), func(element []byte) []byte { return n.Rename(upstream, kind, element) })
		if !ok || changed && mcp.Scan(body, m) != nil {
			return false
		}
	}
	return true
}

// Rename returns the definition of an item with the name that clients see; nil for a hidden item.
func (n *Names) Rename(upstream string, kind mcp.ListKind, definition []byte) []byte {
	if it, why := newItem(n, upstream, kind, definition); why == "" {
		return it.JSON
	}
	return nil
}
