package federation

import (
	"container/list"
	"context"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// lookupEvery is the shortest time between two lookups for one caller.
const lookupEvery = 5 * time.Second

// URIs returns the URIs in an upstream's result that callers may use later; none without
// federation.
func (f *Federation) URIs(m *mcp.Message) []string {
	if f == nil {
		return nil
	}
	return catalog.URIs(m)
}

// LearnURIs stores that an upstream returned URIs to a caller.
func (f *Federation) LearnURIs(ctx context.Context, who *auth.Principal, upstream string, uris []string) {
	if upstream != Name && who != nil {
		f.seen.Learn(ctx, who, upstream, uris)
	}
}

// lookups are the last lookups of names without a known owner, for each caller and view.
type lookups struct {
	now func() time.Time

	mu      sync.Mutex
	callers map[string]*list.Element
	order   *list.List // of *lookup, the latest first
}

type lookup struct {
	caller string
	began  time.Time
	done   chan struct{}
}

func newLookups(now func() time.Time) lookups {
	return lookups{now: now, callers: map[string]*list.Element{}, order: list.New()}
}

// do runs ask for a caller, unless it ran less than lookupEvery ago; concurrent calls for the
// same caller wait for it.
func (l *lookups) do(ctx context.Context, who *upstream.Caller, ask func()) {
	key := ""
	if who != nil && who.Principal != nil {
		key = string(who.Principal.AppendKey(who.View.Scope()))
	}
	e, mine := l.begin(key)
	if mine {
		defer close(e.done)
		ask()
		return
	}
	select {
	case <-e.done:
	case <-ctx.Done():
	}
}

func (l *lookups) begin(key string) (e *lookup, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if at := l.callers[key]; at != nil {
		if e := at.Value.(*lookup); now.Sub(e.began) < lookupEvery {
			return e, false
		}
		l.order.Remove(at)
	}
	if l.order.Len() >= catalog.MaxCallers {
		oldest := l.order.Back()
		delete(l.callers, oldest.Value.(*lookup).caller)
		l.order.Remove(oldest)
	}
	e = &lookup{caller: key, began: now, done: make(chan struct{})}
	l.callers[key] = l.order.PushFront(e)
	return e, true
}

// ask reads the lists of the upstreams in the caller's view: private lists for the caller at
// once, and shared ones if they were not read a short time ago. It waits at most
// list_timeout. Afterwards the listed names have owners.
func (f *Federation) ask(ctx context.Context, c *upstream.Caller) {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Config.ListTimeout)
	defer cancel()
	var waiting sync.WaitGroup
	for _, fd := range f.feeds {
		if !fd.PerCaller() && catalog.ViewOf(c).Has(fd.Name) {
			waiting.Go(func() { _ = fd.Ask(ctx, true) }) // the last lists stay in use
		}
	}
	f.merge.For(ctx, c, mcp.ListKinds[:]...).End()
	waiting.Wait()
}
