package catalog

import (
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"maps"

	"svc/gateway/mcp"
)

// maxGone bounds the remembered positions of removed items of a kind, which cursors may name.
const maxGone = 2 * MaxItems

// gone maps an item that is no longer listed to the one that followed it; empty at the end of the
// list.
type gone map[string]string

// goneSince returns the removed items: those of the previous catalog and those removed since.
func goneSince(previous, now *Catalog, kind mcp.ListKind) gone {
	if previous == nil {
		return nil
	}
	var out gone
	if before := previous.gone[kind]; len(before) < maxGone {
		out = maps.Clone(before)
	}
	listed := func(key string) bool { _, ok := now.byKey[kind][key]; return ok }
	maps.DeleteFunc(out, func(key, _ string) bool { return listed(key) })
	items := previous.items[kind]
	for i, it := range items {
		if listed(it.Visible) {
			continue
		}
		if out == nil {
			out = gone{}
		}
		out[it.Visible] = ""
		if i+1 < len(items) {
			out[it.Visible] = items[i+1].Visible
		}
	}
	return out
}

// behind returns the index after an item, also after a removed one.
func (c *Catalog) behind(kind mcp.ListKind, after string) (index int, ok bool) {
	if i, ok := c.byKey[kind][after]; ok {
		return i + 1, true
	}
	for range len(c.gone[kind]) {
		next, ok := c.gone[kind][after]
		if !ok {
			return 0, false
		}
		if next == "" {
			return len(c.items[kind]), true
		}
		if i, ok := c.byKey[kind][next]; ok {
			return i, true
		}
		after = next
	}
	return 0, false
}

// ErrCursor is the error of a cursor that was not issued for this list and caller.
var ErrCursor = errors.New("the cursor was not issued for this list")

// Cursors encrypts the positions at which pages begin, so that a client can neither read nor
// forge a cursor. It is safe for concurrent use.
type Cursors struct {
	// AEAD encrypts and authenticates. It must choose its own nonces, as
	// [cipher.NewGCMWithRandomNonce] does.
	AEAD cipher.AEAD
}

// Seal returns the cursor of the page after an item. scope is the additional data that the cursor
// is bound to: the caller, the view and everything else that determines the list.
func (s Cursors) Seal(scope []byte, it *Item) string {
	sealed := s.AEAD.Seal(nil, nil, []byte(it.Visible), additionalData(scope, it.Kind))
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// Open returns the item that Seal was called with, if scope and kind are the same.
func (s Cursors) Open(scope []byte, kind mcp.ListKind, cursor string) (after string, err error) {
	if len(cursor) > 2*MaxKey {
		return "", ErrCursor
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", ErrCursor
	}
	text, err := s.AEAD.Open(nil, nil, sealed, additionalData(scope, kind))
	if err != nil || len(text) == 0 {
		return "", ErrCursor
	}
	return string(text), nil
}

func additionalData(scope []byte, kind mcp.ListKind) []byte {
	return append([]byte("catalog cursor "+kind.String()+" "), scope...)
}
