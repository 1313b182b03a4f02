package search

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// Limits of the list of an upstream. An incomplete list is not used, because searches in it would
// be misleading.
const (
	maxTools = 5000
	maxBytes = 8 << 20
)

// maxLoggedChanges bounds the changes of one list that are logged individually.
const maxLoggedChanges = 100

// Options are the parameters of a refresher.
type Options struct {
	// Lists reads the lists of the upstreams. It runs apart from the refresher.
	Lists *catalog.Reader
	// Upstreams are those whose tools are searched.
	Upstreams []string
	// Route returns the upstream that a tool is called at.
	Route func(tool string) (upstream string, ok bool)
	// Reserved is the name of a tool of the gateway itself: tools of upstreams
	// with that name are never results.
	Reserved string
	// Interval is the maximum time between two lists of one upstream.
	Interval time.Duration
	Logger   *slog.Logger
	// State is the file of the definition hashes; if empty they are kept in
	// memory only.
	State string
	// Keep returns an upstream's offer under the names that clients see; nil keeps its own.
	Keep func(upstream string, o *catalog.Offer) *catalog.Offer
	// Changed is called when the definition of a tool has changed; may be nil. It
	// is called from several goroutines.
	Changed func(upstream, tool string)
}

// Stats is the state of one upstream's list.
type Stats struct {
	Upstream string
	// Tools counts the searchable tools.
	Tools int
	// Failures counts failed lists, Changed changed definitions.
	Failures, Changed uint64
	// BackingOff is set when the last list failed; Private when the list is for
	// one caller only and therefore not searchable.
	BackingOff, Private bool
}

// Refresher maintains an index of the tools of upstreams. Its methods are safe for concurrent use.
type Refresher struct {
	opts  Options
	tools []*toolList
	lists []*catalog.Feed // of the same upstreams
	index atomic.Pointer[Index]

	mu     sync.Mutex // guards the shared state of tools
	saving sync.Mutex // one at a time; taken before mu
}

// toolList are the tools of one upstream. The fields are guarded by Refresher.mu.
type toolList struct {
	name  string // of the upstream
	known known
	list  []*Tool
	stats Stats
}

// New creates a refresher with an empty index. It must be called before the reader runs. A file of
// hashes that cannot be read is logged and replaced.
func New(opts Options) *Refresher {
	r := &Refresher{opts: opts}
	if r.opts.Logger == nil {
		r.opts.Logger = slog.New(slog.DiscardHandler)
	}
	seen, err := readKnown(opts.State)
	if err != nil {
		r.opts.Logger.Warn("hashes of tool definitions are unknown: changes since the last start are not detected", "error", err)
	}
	for _, name := range opts.Upstreams {
		t := &toolList{name: name, known: seen[name], stats: Stats{Upstream: name}}
		if t.known == nil {
			t.known = known{}
		}
		fd := opts.Lists.Feed(name)
		r.tools, r.lists = append(r.tools, t), append(r.lists, fd)
		fd.Follow(catalog.Need{Kinds: []mcp.ListKind{mcp.Tool}, Interval: opts.Interval, Check: check, Read: func(o *catalog.Offer, _ []mcp.ListKind) {
			if o != nil { // otherwise the last list stays in use: its tools are still routed
				r.take(fd, t, o)
			}
		}})
	}
	r.index.Store(NewIndex(nil))
	return r
}

// Index returns the current index.
func (r *Refresher) Index() *Index { return r.index.Load() }

// Ready waits until every upstream was asked once, or the context ends, and
// reports whether all were asked.
func (r *Refresher) Ready(ctx context.Context) bool { return catalog.Ready(ctx, r.lists) }

// Stats returns the state of every upstream's list.
func (r *Refresher) Stats() []Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Stats, len(r.tools))
	for i, t := range r.tools {
		out[i] = t.stats
		out[i].Failures, out[i].BackingOff = r.lists[i].Health()
	}
	return out
}

// toolsOf returns the list of tools of an offer; an empty one if it has none.
func toolsOf(o *catalog.Offer) *catalog.List {
	for i := range o.Lists {
		if o.Lists[i].Kind == mcp.Tool {
			return &o.Lists[i]
		}
	}
	return new(catalog.List)
}

// check returns the reason why a list of tools is not used; nil for none.
func check(o *catalog.Offer) error {
	list, size := toolsOf(o), 0
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

// parse returns the valid tools of a list, each name once. left counts the others, and why is the
// reason for one of them.
func parse(name string, list *catalog.List) (tools []*Tool, left int, why error) {
	seen := make(map[string]bool, len(list.Items))
	for _, raw := range list.Items {
		t, err := parseTool(name, raw)
		if err == nil && seen[t.Name] {
			err = fmt.Errorf("%q is listed twice", t.Name)
		}
		if err != nil {
			left, why = left+1, err
			continue
		}
		seen[t.Name] = true
		tools = append(tools, t)
	}
	return tools, left, why
}

// take replaces the tools of an upstream by those of a reading.
func (r *Refresher) take(fd *catalog.Feed, t *toolList, o *catalog.Offer) {
	if r.opts.Keep != nil {
		o = r.opts.Keep(t.name, o)
	}
	list := toolsOf(o)
	tools, left, why := parse(t.name, list)
	if left > 0 {
		r.opts.Logger.Warn("some tools are left out of the search", "upstream", t.name, "tools", left, "reason", why)
	}
	changed := r.compare(t, tools)
	private := fd.Private(o, list)
	if private {
		tools = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.stats.Changed += uint64(changed)
	if private && !t.stats.Private {
		r.opts.Logger.Warn("tools are not searchable: the upstream lists them for one caller alone (cacheScope private)", "upstream", t.name,
			"fix", "let the upstream answer tools/list with cacheScope public if its tools are the same for all callers")
	}
	t.stats.Private = private
	if !same(t.list, tools) {
		t.list = tools
		r.rebuild()
	}
}

// compare logs definitions that have changed, and stores the current hashes.
func (r *Refresher) compare(t *toolList, tools []*Tool) (changed int) {
	names, news := r.remember(t, tools)
	if news {
		defer r.save() // saved after logging: a change may be logged twice, but is never lost
	}
	for _, name := range names[:min(len(names), maxLoggedChanges)] {
		r.opts.Logger.Warn("tool_definition_changed", "upstream", t.name, "tool", name)
		if r.opts.Changed != nil {
			r.opts.Changed(t.name, name)
		}
	}
	if more := len(names) - maxLoggedChanges; more > 0 {
		r.opts.Logger.Warn("further definitions changed", "upstream", t.name, "tools", more)
	}
	return len(names)
}

// remember stores the hashes of a list, and returns the tools whose hash has
// changed. news reports whether there is anything to save.
func (r *Refresher) remember(list *toolList, tools []*Tool) (changed []string, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(list.known) > 2*maxTools { // names come from the upstream, so bound the map
		clear(list.known)
	}
	for _, t := range tools {
		before, ok := list.known[t.Name]
		if ok && before == t.digest {
			continue
		}
		list.known[t.Name] = t.digest
		news = true
		if ok {
			changed = append(changed, t.Name)
		}
	}
	return changed, news
}

// save writes the hashes to their file. A failure is logged: until a save
// succeeds, changes across a restart are not detected.
func (r *Refresher) save() {
	if r.opts.State == "" {
		return
	}
	r.saving.Lock()
	defer r.saving.Unlock()
	all := make(map[string]known, len(r.tools))
	r.mu.Lock()
	for _, t := range r.tools {
		all[t.name] = maps.Clone(t.known)
	}
	r.mu.Unlock()
	if err := writeKnown(r.opts.State, all); err != nil {
		r.opts.Logger.Error("hashes of tool definitions were not saved", "error", err)
	}
}

// same reports whether two lists have the same definitions in the same order.
func same(a, b []*Tool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].digest != b[i].digest {
			return false
		}
	}
	return true
}

// rebuild replaces the index. It contains a tool if routes lead its name to the
// upstream that lists it: if several upstreams list a name, only the tool that a
// call would reach is searchable. The caller holds mu.
func (r *Refresher) rebuild() {
	var tools []*Tool
	for _, of := range r.tools {
		kept, hidden, example := 0, 0, ""
		for _, t := range of.list {
			to, ok := r.opts.Route(t.Name)
			if !ok || to != of.name || t.Name == r.opts.Reserved {
				hidden, example = hidden+1, t.Name
				continue
			}
			tools = append(tools, t)
			kept++
		}
		if of.stats.Tools != kept && hidden > 0 {
			r.opts.Logger.Warn("some tools are not searchable: no route leads to them here", "upstream", of.name, "tools", hidden, "for_example", example)
		}
		of.stats.Tools = kept
	}
	r.index.Store(NewIndex(tools))
	r.opts.Logger.Info("tool index built", "tools", len(tools))
}
