package federation

import (
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// maxCompared bounds the items that are compared under the rules of each client: after a change of
// more of them, every client at the view is notified.
const maxCompared = 2000

// privateReaders is the number of clients for whom the private lists of one upstream are read at the
// same time after a change. It is below the bound on readings for callers, so that a client that
// requests a list need not wait for them.
const privateReaders = 2

// compareTime bounds the comparison of the private lists of one upstream after a change.
const compareTime = 10 * time.Second

// difference is what differs between two lists of a kind: the items from the first to the last
// difference in each.
type difference struct{ before, after []*catalog.Item }

// differences compares the lists of a view, by kind.
func differences(v *auth.View, before, after *catalog.Catalog) (out [mcp.NumListKinds]difference) {
	in := func(items []*catalog.Item) []*catalog.Item {
		if v == nil {
			return items
		}
		return slices.DeleteFunc(slices.Clone(items), func(it *catalog.Item) bool { return !v.Shows(it.Kind, it.Upstream, it.Visible) })
	}
	for _, kind := range mcp.ListKinds {
		a, b := in(before.Items(kind)), in(after.Items(kind))
		for len(a) > 0 && len(b) > 0 && a[0].Same(b[0]) {
			a, b = a[1:], b[1:]
		}
		for len(a) > 0 && len(b) > 0 && a[len(a)-1].Same(b[len(b)-1]) {
			a, b = a[:len(a)-1], b[:len(b)-1]
		}
		out[kind] = difference{a, b}
	}
	return out
}

// may reports whether the rules let the client of a stream use an item.
func (f *Federation) may(w *watcher, it *catalog.Item) bool {
	return f.opts.May == nil || f.opts.May(w.caller, it.Kind, it.Upstream, it.Visible)
}

// notifyShared notifies the clients for whom a merged list has changed under their views and rules.
func (f *Federation) notifyShared(before, after *catalog.Catalog) {
	views := map[*auth.View][mcp.NumListKinds]difference{}
	for _, w := range f.watchers.list() {
		v := catalog.ViewOf(w.caller)
		differing, known := views[v]
		if !known {
			differing = differences(v, before, after)
			views[v] = differing
		}
		var kinds []mcp.ListKind
		for _, kind := range mcp.ListKinds {
			d := differing[kind]
			seen := func(items []*catalog.Item) []*catalog.Item {
				return slices.DeleteFunc(slices.Clone(items), func(it *catalog.Item) bool { return it.Form(w.subscription != nil) == nil || !f.may(w, it) })
			}
			if len(d.before)+len(d.after) > maxCompared || !slices.EqualFunc(seen(d.before), seen(d.after), (*catalog.Item).Same) {
				kinds = append(kinds, kind)
			}
		}
		w.changed(kinds)
	}
}

// seenLists are the digests of the private items of one upstream that a client sees, by kind.
type seenLists [mcp.NumListKinds][sha256.Size]byte

// seenOf returns the digests of the items that the client of a stream sees.
func (f *Federation) seenOf(w *watcher, upstream string, offer *catalog.Offer) (out seenLists) {
	for i := range offer.Lists {
		kind, h := offer.Lists[i].Kind, sha256.New()
		for _, raw := range offer.Lists[i].Items {
			it, ok := f.names.Item(upstream, kind, raw)
			if ok && catalog.ViewOf(w.caller).Shows(kind, upstream, it.Visible) && f.may(w, it) {
				h.Write(it.Digest[:])
				_, _ = io.WriteString(h, it.Visible+"\n") // a hash.Hash returns no errors
			}
		}
		h.Sum(out[kind][:0])
	}
	return out
}

// noteSeen stores the private lists that the client of a new stream was shown.
func (f *Federation) noteSeen(w *watcher) {
	for _, fd := range f.feeds {
		if offer := fd.Cached(w.caller); offer != nil && catalog.ViewOf(w.caller).Has(fd.Name) {
			f.compareSeen(w, fd.Name, offer)
		}
	}
}

// compareSeen stores the private lists of a client, and returns the kinds that have changed since
// the last time; all of them the first time.
func (f *Federation) compareSeen(w *watcher, upstream string, offer *catalog.Offer) (changed []mcp.ListKind) {
	now := f.seenOf(w, upstream, offer)
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.seen[upstream]
	if w.seen == nil {
		w.seen = map[string]seenLists{}
	}
	w.seen[upstream] = now
	for _, kind := range mcp.ListKinds {
		if !known || before[kind] != now[kind] {
			changed = append(changed, kind)
		}
	}
	return changed
}

// privateChange are the kinds of which the private lists of an upstream may have changed, until
// they are compared.
type privateChange struct {
	wake  chan struct{}
	mu    sync.Mutex
	kinds []mcp.ListKind
}

func (p *privateChange) add(kinds []mcp.ListKind) {
	if len(kinds) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kind := range kinds {
		if !slices.Contains(p.kinds, kind) {
			p.kinds = append(p.kinds, kind)
		}
	}
	select {
	case p.wake <- struct{}{}:
	default: // they are compared after this change too
	}
}

func (p *privateChange) take() []mcp.ListKind {
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds := p.kinds
	p.kinds = nil
	return kinds
}

// followPrivate notifies the clients whose private lists of an upstream have changed, until ctx
// ends.
func (f *Federation) followPrivate(ctx context.Context, fd *catalog.Feed) {
	change := f.private[fd.Name]
	for {
		select {
		case <-ctx.Done():
			return
		case <-change.wake:
			f.notifyPrivate(ctx, fd, change.take())
		}
	}
}

// notifyPrivate reads the private lists of an upstream for the clients that watch, and notifies
// those whose lists have changed since they were read for them. A client whose lists are not known
// is notified: it is known only by its address, was not compared before, or the upstream does not
// answer in time.
func (f *Federation) notifyPrivate(ctx context.Context, fd *catalog.Feed, private []mcp.ListKind) {
	within, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	watched := func(w *watcher) []mcp.ListKind {
		return slices.DeleteFunc(slices.Clone(private), func(k mcp.ListKind) bool { return !catalog.ViewOf(w.caller).Lists(k, fd.Name) })
	}
	callers := map[[sha256.Size]byte][]*watcher{}
	for _, w := range f.watchers.list() {
		if key, cached := w.caller.CacheKey(); cached {
			callers[key] = append(callers[key], w)
		} else { // a reading would be for this comparison alone
			w.changed(watched(w))
		}
	}
	turns := make(chan struct{}, privateReaders)
	var all sync.WaitGroup
	for _, streams := range callers {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			defer f.contain("private lists")
			var offer *catalog.Offer
			if within.Err() == nil && slices.ContainsFunc(streams, func(w *watcher) bool { return len(watched(w)) > 0 }) {
				offer, _ = fd.ListsFor(within, streams[0].caller)
			}
			for _, w := range streams {
				kinds := watched(w)
				if offer != nil && len(kinds) > 0 {
					changed := f.compareSeen(w, fd.Name, offer)
					kinds = slices.DeleteFunc(kinds, func(k mcp.ListKind) bool { return !slices.Contains(changed, k) })
				}
				w.changed(kinds)
			}
		})
	}
	all.Wait()
}
