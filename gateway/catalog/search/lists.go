package search

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/upstream/translate"
)

// Limits of the list of an upstream without federation. An incomplete list is not used, because
// searches in it would be misleading.
const (
	maxTools = 5000
	maxBytes = 8 << 20
)

// awaitLists bounds how long a search waits for the first lists of upstreams after the
// start.
const awaitLists = 3 * time.Second

// identity merges the lists of the upstreams without federation: each tool belongs to the upstream
// at which it is called. The last list of an upstream that cannot be read stays in use, because its
// tools are still routed.
func (s *Service) identity() *catalog.Merge {
	return catalog.NewMerge(catalog.MergeOptions{
		Lists: s.opts.Lists, Feeds: s.feeds, Need: catalog.Need{Kinds: []mcp.ListKind{mcp.Tool}, Interval: s.opts.Interval, Check: check},
		Names: s.opts.Names, Owners: catalog.RoutedOwners(s.opts.Route), Wait: awaitLists, StaleFor: math.MaxInt64, Now: s.opts.Now, Changed: s.changed,
	})
}

// check returns the reason why a list of tools is not used; nil for none.
func check(o *catalog.Offer) error {
	list, size := o.List(mcp.Tool), 0
	for _, item := range list.Items {
		size += len(item)
	}
	err := list.Cut
	switch {
	case len(list.Items) > maxTools:
		err = fmt.Errorf("%w: over %d", catalog.ErrTooMany, maxTools)
	case size > maxBytes:
		err = fmt.Errorf("%w: over %d bytes", catalog.ErrTooLarge, maxBytes)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", mcp.MethodToolsList, err)
	}
	return nil
}

// changed builds the index of merged lists before a search needs it, and logs how many tools are
// not in it because calls do not reach them.
func (s *Service) changed(before, after *catalog.Snapshot) {
	was, _ := unrouted(before.Catalog)
	is, example := unrouted(after.Catalog)
	for _, fd := range s.feeds {
		if n := is[fd.Name]; n > 0 && n != was[fd.Name] {
			s.opts.Logger.Warn("some tools are not searchable: no route leads to them here", "upstream", fd.Name, "tools", n, "for_example", example[fd.Name])
		}
	}
	if tools := after.Catalog.Items(mcp.Tool); !slices.Equal(tools, before.Catalog.Items(mcp.Tool)) {
		s.opts.Logger.Info("tool index built", "tools", s.index(after.Catalog).Len())
	}
}

// unrouted returns the number of tools of each upstream that belong to another one or to none, and
// the visible name of one of them.
func unrouted(c *catalog.Catalog) (tools map[string]int, example map[string]string) {
	tools, example = map[string]int{}, map[string]string{}
	for _, left := range c.LeftOut() {
		if left.Reason == catalog.ReasonClaimed {
			tools[left.Upstream]++
			example[left.Upstream] = left.Visible
		}
	}
	return tools, example
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
	of    []*catalog.Item
	index *Index
}

// index returns the index of the tools of a catalog. Catalogs with the same tools share one.
func (s *Service) index(c *catalog.Catalog) *Index {
	x, tools := &s.indexes, c.Items(mcp.Tool)
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := slices.IndexFunc(x.kept, func(k indexed) bool { return slices.Equal(k.of, tools) }); i >= 0 {
		found := x.kept[i]
		x.kept = append(slices.Delete(x.kept, i, i+1), found)
		return found.index
	}
	if len(x.kept) >= maxIndexes {
		x.kept = slices.Delete(x.kept, 0, 1)
	}
	x.kept = append(x.kept, indexed{tools, s.indexOf(tools)})
	return x.kept[len(x.kept)-1].index
}

// indexOf returns a new index of tools, without those that are for apps alone, and those whose names are
// taken by the gateway's own.
func (s *Service) indexOf(items []*catalog.Item) *Index {
	var tools []*Tool
	for _, it := range items {
		if it.ForApps {
			continue
		}
		if t, err := parseTool(it.Upstream, it.JSON); err == nil && t.Name != Name && (t.Name != CallName || !s.opts.Call) {
			tools = append(tools, t)
		}
	}
	x := NewIndex(tools)
	for _, t := range tools {
		t.params = nil // the index has their words
	}
	return x
}

// indexFor returns the index of a caller's tools. release must be called when neither the index nor
// what was found in it is used any longer.
func (s *Service) indexFor(ctx context.Context, c *upstream.Caller) (index *Index, release func()) {
	v := s.lists.For(ctx, c, mcp.Tool)
	if v.Alone() { // it is not cached: no other call could use it, and it would stay in memory
		return s.indexOf(v.Catalog.Items(mcp.Tool)), v.End
	}
	return s.index(v.Catalog), v.End
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
	v := s.lists.For(ctx, c, mcp.Tool)
	defer v.End()
	var schema json.RawMessage
	if it, ok := v.Catalog.Item(mcp.Tool, m.Name); ok {
		schema = schemaOf(it.JSON)
	}
	translate.AppendParams(h, schema, m)
}
