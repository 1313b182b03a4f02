package toolsearch

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/translate/tomodern"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Merged are the merged lists of all upstreams (federation).
type Merged interface {
	// Tools returns the tools in a caller's lists before rules are applied: those of
	// shared lists, and the caller's own.
	Tools(ctx context.Context, c *transport.Caller) *catalog.Catalog
}

// maxIndexes bounds the cached indexes of merged lists: one for the shared lists, the
// others for callers with lists of their own.
const maxIndexes = 32

// indexes are the indexes of merged lists, least recently used first. The zero value is
// ready for use.
type indexes struct {
	mu   sync.Mutex
	kept []indexed
}

type indexed struct {
	of    *catalog.Catalog
	index *Index
}

// get returns the index of the tools of a catalog.
func (x *indexes) get(c *catalog.Catalog) *Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := slices.IndexFunc(x.kept, func(k indexed) bool { return k.of == c }); i >= 0 {
		found := x.kept[i]
		x.kept = append(slices.Delete(x.kept, i, i+1), found)
		return found.index
	}
	var tools []*Tool
	for _, it := range c.Items(catalog.Tool) {
		if t, err := parseTool(it.Upstream, it.JSON); err == nil && t.Name != Name && t.Name != CallName {
			tools = append(tools, t)
		}
	}
	if len(x.kept) >= maxIndexes {
		x.kept = slices.Delete(x.kept, 0, 1)
	}
	x.kept = append(x.kept, indexed{c, NewIndex(tools)})
	return x.kept[len(x.kept)-1].index
}

// indexFor returns the index of a caller's tools.
func (s *Service) indexFor(ctx context.Context, c *transport.Caller) *Index {
	if s.Merged != nil {
		return s.indexes.get(s.Merged.Tools(ctx, c))
	}
	ctx, cancel := context.WithTimeout(ctx, awaitLists)
	defer cancel()
	s.Ready(ctx)
	return s.Index()
}

// Mirror writes the headers that mirror an unwrapped call: the client's headers mirrored
// the original message. own is the upstream's own name of the tool, empty for the name in
// the message.
func (s *Service) Mirror(ctx context.Context, c *transport.Caller, h *upstream.Header, m *mcp.Message, own string) {
	if own == "" {
		own = m.Name
	}
	h.Del(mcp.HeaderName)
	h.Add(mcp.HeaderName, mcp.EncodeHeader(own))
	tomodern.AppendParams(h, s.inputSchema(ctx, c, m.Name), m)
}

// inputSchema returns the input schema of a caller's tool; nil for an unknown one.
func (s *Service) inputSchema(ctx context.Context, c *transport.Caller, name string) json.RawMessage {
	if s.Merged != nil {
		if it, ok := s.Merged.Tools(ctx, c).Item(catalog.Tool, name); ok {
			return schemaOf(it.JSON)
		}
		return nil
	}
	x := s.Index()
	if i := slices.IndexFunc(x.tools, func(t *Tool) bool { return t.Name == name }); i >= 0 {
		return x.tools[i].InputSchema
	}
	return nil
}
