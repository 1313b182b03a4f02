package catalog

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"svc/gateway/mcp"
)

// Bounds on the lists of one upstream.
const (
	MaxItems = 10_000  // items of one kind
	MaxItem  = 1 << 20 // bytes of one definition
	MaxKey   = 4096    // bytes of a name, uri or template
)

// Item is a tool, prompt, resource or template of one upstream with the name that clients see. It
// is immutable.
type Item struct {
	Kind     mcp.ListKind
	Upstream string
	// Own is the upstream's name, uri or template, and Visible the one that clients see.
	Own, Visible string
	// JSON is the definition with the visible name.
	JSON []byte
	// Addressed is set if the form of Visible alone decides to which upstream it belongs.
	Addressed bool
	// Digest is the digest of the upstream's definition.
	Digest [sha256.Size]byte
	// ForApps is set for a tool that is for apps alone, and HasApp for one whose _meta is about apps.
	ForApps, HasApp bool

	fit   sync.Once // sets forms
	forms [2][]byte // for the two protocol generations
}

// Same reports whether two items are the same definition of one upstream under the same name.
func (it *Item) Same(other *Item) bool {
	return it.Digest == other.Digest && it.Visible == other.Visible && it.Upstream == other.Upstream
}

// Form returns the form of the item for clients of a protocol generation ([Fit]); nil if they
// cannot parse it.
func (it *Item) Form(modern bool) []byte {
	it.fit.Do(func() {
		for i, modern := range [...]bool{false, true} {
			it.forms[i], _ = Fit(it.Kind, it.JSON, modern)
		}
	})
	if modern {
		return it.forms[1]
	}
	return it.forms[0]
}

// key returns the member that identifies an item in requests: name, uri or uriTemplate.
func key(kind mcp.ListKind, raw []byte) (at mcp.Span, value string, ok bool) {
	at = mcp.Find(raw, mcp.Span{End: len(raw)}, kind.Key())
	value, ok = mcp.StringValue(at.Of(raw))
	return at, strings.Clone(value), ok && value != "" && len(value) <= MaxKey
}

// Item returns a definition of an upstream's list as clients see it. ok is false if they cannot.
func (n *Names) Item(upstream string, kind mcp.ListKind, raw []byte) (it *Item, ok bool) {
	it, why := newItem(n, upstream, kind, raw)
	return it, why == ""
}

// newItem parses a definition. raw is one JSON value of a scanned message.
func newItem(n *Names, upstream string, kind mcp.ListKind, raw []byte) (*Item, Reason) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) > MaxItem:
		return nil, ReasonTooLarge
	case len(raw) == 0 || raw[0] != '{':
		return nil, ReasonMalformed
	}
	at, own, ok := key(kind, raw)
	if !ok {
		return nil, ReasonMalformed
	}
	it := &Item{Kind: kind, Upstream: upstream, Own: own, Digest: sha256.Sum256(raw)}
	if kind == mcp.Tool {
		it.ForApps, it.HasApp = isForApps(raw), hasApp(raw)
	}
	var why Reason
	if it.Visible, why = n.Visible(upstream, kind, own); why != "" {
		return it, why
	}
	it.JSON = raw
	var edits []mcp.Edit
	if it.Visible != own {
		it.Addressed = !kind.Named()
		edits = append(edits, mcp.Edit{At: at, With: mcp.AppendString(nil, it.Visible)})
	}
	if a := n.Addresses(); a != nil && mayHaveAddress(raw) {
		meta := mcp.Find(raw, mcp.Span{End: len(raw)}, "_meta")
		edits = a.edits(edits, upstream, raw, mcp.AppendPages(nil, raw, meta))
	}
	if len(edits) > 0 {
		slices.SortFunc(edits, func(a, b mcp.Edit) int { return a.At.Start - b.At.Start })
		it.JSON = mcp.Splice(nil, raw, edits...)
	}
	return it, ""
}
