package toolsearch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/backoff"
	"svc/gateway/lister"
	"svc/gateway/transport"
)

// The intervals of the refresher (gateway specification, tool_search).
const (
	minRefresh   = time.Second
	firstBackoff = 30 * time.Second
	maxBackoff   = 30 * time.Minute
)

// maxLoggedChanges bounds the changes of one list that are logged individually.
const maxLoggedChanges = 100

// Source is an upstream whose tools are listed.
type Source struct {
	Name      string
	Transport transport.Transport
	Protocol  string // upstreams[].protocol
}

// Options are the parameters of a refresher.
type Options struct {
	Sources []Source
	// Route returns the upstream that a tool is called at.
	Route func(tool string) (upstream string, ok bool)
	// Reserved is the name of a tool of the gateway itself: tools of upstreams
	// with that name are never results.
	Reserved string
	// Interval is the maximum time between two lists of one upstream.
	Interval time.Duration
	// Version is sent to upstreams.
	Version string
	Logger  *slog.Logger
	// State is the file of the definition hashes; if empty they are kept in
	// memory only.
	State string
	// Keep returns an upstream's offer without withheld items; nil keeps all.
	Keep func(upstream string, o *lister.Offer) *lister.Offer
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

// Refresher maintains an index of the tools of all upstreams. Its methods are
// safe for concurrent use.
type Refresher struct {
	opts   Options
	feeds  []*feed
	index  atomic.Pointer[Index]
	tried  chan struct{} // closed when the first pass over all upstreams is done
	trying sync.WaitGroup

	mu     sync.Mutex // guards the shared state of the feeds
	saving sync.Mutex // one at a time; taken before mu
}

// feed is one upstream.
type feed struct {
	lister toolLister
	fails  int // consecutive failures; used by the feed's goroutine

	// Guarded by Refresher.mu:
	known known
	list  []*Tool
	stats Stats
}

// New creates a refresher with an empty index. It sends no requests before Run. A
// file of hashes that cannot be read is logged and replaced.
func New(opts Options) *Refresher {
	r := &Refresher{opts: opts, tried: make(chan struct{})}
	if r.opts.Logger == nil {
		r.opts.Logger = slog.New(slog.DiscardHandler)
	}
	seen, err := readKnown(opts.State)
	if err != nil {
		r.opts.Logger.Warn("hashes of tool definitions are unknown: changes since the last start are not detected", "error", err)
	}
	for _, s := range opts.Sources {
		f := &feed{
			lister: newToolLister(s, &opts),
			known:  seen[s.Name],
			stats:  Stats{Upstream: s.Name},
		}
		if f.known == nil {
			f.known = known{}
		}
		r.feeds = append(r.feeds, f)
		r.trying.Add(1)
	}
	r.index.Store(NewIndex(nil))
	return r
}

// Index returns the current index.
func (r *Refresher) Index() *Index { return r.index.Load() }

// Ready waits until every upstream was asked once, or the context ends, and
// reports whether all were asked.
func (r *Refresher) Ready(ctx context.Context) bool {
	select {
	case <-r.tried:
		return true
	default:
	}
	select {
	case <-r.tried:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stats returns the state of every upstream's list.
func (r *Refresher) Stats() []Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Stats, len(r.feeds))
	for i, f := range r.feeds {
		out[i] = f.stats
	}
	return out
}

// Run lists the tools of every upstream periodically, each at its own interval,
// until ctx ends, and returns when all its goroutines have ended. It may be
// called once.
func (r *Refresher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, f := range r.feeds {
		wg.Go(func() {
			asked := sync.OnceFunc(r.trying.Done)
			defer asked()
			for ctx.Err() == nil {
				pause := r.refresh(ctx, f)
				asked()
				timer := time.NewTimer(pause)
				select {
				case <-ctx.Done():
					timer.Stop()
					return
				case <-timer.C:
				}
			}
		})
	}
	wg.Go(func() {
		r.trying.Wait()
		close(r.tried)
	})
	wg.Wait()
}

// refresh lists the tools of one upstream and returns the pause until the next
// list.
func (r *Refresher) refresh(ctx context.Context, f *feed) time.Duration {
	got, err := r.list(ctx, f)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		return r.failed(f, err)
	}
	if f.fails > 0 {
		r.opts.Logger.Info("tools are listed again", "upstream", f.lister.name)
	}
	f.fails = 0
	if got.left > 0 {
		r.opts.Logger.Warn("some tools are left out of the search", "upstream", f.lister.name, "tools", got.left, "reason", got.why)
	}
	changed := r.compare(f, got.tools)
	if got.private {
		got.tools = nil
	}
	r.mu.Lock()
	f.stats.Changed += uint64(changed)
	f.stats.BackingOff = false
	if got.private && !f.stats.Private {
		r.opts.Logger.Warn("tools are not searchable: the upstream lists them for one caller alone (cacheScope private)", "upstream", f.lister.name,
			"fix", "let the upstream answer tools/list with cacheScope public if its tools are the same for all callers")
	}
	f.stats.Private = got.private
	if !same(f.list, got.tools) {
		f.list = got.tools
		r.rebuild()
	}
	r.mu.Unlock()
	return pause(r.opts.Interval, got)
}

// pause is the time until the next list. The lifetime of a private list is
// ignored: it is not searched, and only requested again to check whether it is
// still private.
func pause(interval time.Duration, got *listing) time.Duration {
	if got.hasTTL && !got.private {
		interval = min(interval, got.ttl)
	}
	return max(interval, minRefresh)
}

// list requests a list; a panic is treated as a failure.
func (r *Refresher) list(ctx context.Context, f *feed) (got *listing, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.opts.Logger.Error("panic", "in", "tool search", "upstream", f.lister.name, "panic", p, "stack", string(debug.Stack()))
			got, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return f.lister.list(ctx)
}

// failed counts a failure and returns the pause after it. The previous list of
// the upstream stays in use: its tools are still routed.
func (r *Refresher) failed(f *feed, err error) time.Duration {
	f.fails++
	wait := backoff.After(f.fails, firstBackoff, maxBackoff)
	r.mu.Lock()
	f.stats.Failures++
	f.stats.BackingOff = true
	r.mu.Unlock()
	r.opts.Logger.Warn("tools could not be listed", "upstream", f.lister.name, "again_in", wait.String(), "error", err)
	return wait
}

// compare logs definitions that have changed, and stores the current hashes.
func (r *Refresher) compare(f *feed, tools []*Tool) (changed int) {
	names, news := r.remember(f, tools)
	if news {
		defer r.save() // saved after logging: a change may be logged twice, but is never lost
	}
	for _, name := range names[:min(len(names), maxLoggedChanges)] {
		r.opts.Logger.Warn("tool_definition_changed", "upstream", f.lister.name, "tool", name)
		if r.opts.Changed != nil {
			r.opts.Changed(f.lister.name, name)
		}
	}
	if more := len(names) - maxLoggedChanges; more > 0 {
		r.opts.Logger.Warn("further definitions changed", "upstream", f.lister.name, "tools", more)
	}
	return len(names)
}

// remember stores the hashes of a list, and returns the tools whose hash has
// changed. news reports whether there is anything to save.
func (r *Refresher) remember(f *feed, tools []*Tool) (changed []string, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(f.known) > 2*maxTools { // names come from the upstream, so bound the map
		clear(f.known)
	}
	for _, t := range tools {
		before, ok := f.known[t.Name]
		if ok && before == t.digest {
			continue
		}
		f.known[t.Name] = t.digest
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
	all := make(map[string]known, len(r.feeds))
	r.mu.Lock()
	for _, f := range r.feeds {
		all[f.lister.name] = maps.Clone(f.known)
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
	for _, f := range r.feeds {
		kept, hidden, example := 0, 0, ""
		for _, t := range f.list {
			to, ok := r.opts.Route(t.Name)
			if !ok || to != f.lister.name || t.Name == r.opts.Reserved {
				hidden, example = hidden+1, t.Name
				continue
			}
			tools = append(tools, t)
			kept++
		}
		if f.stats.Tools != kept && hidden > 0 {
			r.opts.Logger.Warn("some tools are not searchable: no route leads to them here", "upstream", f.lister.name, "tools", hidden, "for_example", example)
		}
		f.stats.Tools = kept
	}
	r.index.Store(NewIndex(tools))
	r.opts.Logger.Info("tool index built", "tools", len(tools))
}
