package search

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/upstream/translate"
)

// Merged are the merged lists of all upstreams (federation).
type Merged interface {
	// Tools returns the tools in a caller's lists before rules are applied: those of
	// shared lists, and the caller's own. If release is not nil, no other call gets the same
	// catalog, and release must be called when it and what was made of it are no longer used.
	Tools(ctx context.Context, c *upstream.Caller) (tools *catalog.Catalog, release func())
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
	if len(x.kept) >= maxIndexes {
		x.kept = slices.Delete(x.kept, 0, 1)
	}
	x.kept = append(x.kept, indexed{c, indexOf(c)})
	return x.kept[len(x.kept)-1].index
}

// indexOf returns a new index of the tools of a catalog.
func indexOf(c *catalog.Catalog) *Index {
	var tools []*Tool
	for _, it := range c.Items(mcp.Tool) {
		if t, err := parseTool(it.Upstream, it.JSON); err == nil && t.Name != Name && t.Name != CallName {
			tools = append(tools, t)
		}
	}
	return NewIndex(tools)
}

// indexFor returns the index of a caller's tools. release must be called when neither the index nor
// what was found in it is used any longer.
func (s *Service) indexFor(ctx context.Context, c *upstream.Caller) (index *Index, release func()) {
	if s.Merged != nil {
		tools, release := s.Merged.Tools(ctx, c)
		if release != nil { // it is not cached: no other call could use it, and it would stay in memory
			return indexOf(tools), release
		}
		return s.indexes.get(tools), func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, awaitLists)
	defer cancel()
	s.Ready(ctx)
	return s.Index(), func() {}
}

// Mirror writes the headers that mirror an unwrapped call: the client's headers mirrored
// the original message. own is the upstream's own name of the tool, empty for the name in
// the message.
func (s *Service) Mirror(ctx context.Context, c *upstream.Caller, h *mcp.Header, m *mcp.Message, own string) {
	if own == "" {
		own = m.Name
	}
	h.Del(mcp.HeaderName)
	h.Add(mcp.HeaderName, mcp.EncodeHeader(own))
	if s.Merged == nil {
		translate.AppendParams(h, s.inputSchema(m.Name), m)
		return
	}
	tools, release := s.Merged.Tools(ctx, c)
	if release != nil {
		defer release()
	}
	var schema json.RawMessage
	if it, ok := tools.Item(mcp.Tool, m.Name); ok {
		schema = schemaOf(it.JSON)
	}
	translate.AppendParams(h, schema, m)
}

// inputSchema returns the input schema of a tool in the upstreams' own lists; nil for an unknown one.
func (s *Service) inputSchema(name string) json.RawMessage {
	x := s.Index()
	if i := slices.IndexFunc(x.tools, func(t *Tool) bool { return t.Name == name }); i >= 0 {
		return x.tools[i].InputSchema
	}
	return nil
}
