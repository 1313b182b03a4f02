package catalog

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// maxReadings bounds the readings at one upstream for callers at the same time.
const maxReadings = 4

// share begins to count the bytes of a reading for a caller.
func (r *Reader) share(c *upstream.Caller) *bodies.Share {
	s := new(bodies.Share)
	if c != nil && c.Principal != nil {
		s.Begin(r.opts.Bodies, bodies.Caller{Who: c.Principal, Known: true, Open: c.Principal.Kind == auth.KindIP})
	} else {
		s.Begin(r.opts.Bodies, bodies.Caller{})
	}
	return s
}

// errManyReadings: the lists of the upstream are being read for too many callers.
var errManyReadings = fmt.Errorf("%d readings of its lists for other callers did not end in time", maxReadings)

// readFor reads lists for a caller, whose bytes count in share. They are passed to Note.
func (fd *Feed) readFor(ctx context.Context, c *upstream.Caller, share *bodies.Share, kinds ...mcp.ListKind) (*Offer, error) {
	r := fd.reader
	select {
	case fd.readings <- struct{}{}:
		defer func() { <-fd.readings }()
	case <-ctx.Done():
		return nil, errManyReadings
	}
	l := Lister{Transport: counted{fd.lister.Transport, share}, Agent: agent, Version: r.opts.Version, Protocol: fd.Config.Protocol, Caller: c}
	offer, err := l.Read(ctx, kinds...)
	if err == nil {
		err = share.Count(sizeOf(offer)) // of the items under their visible names
	}
	if err != nil {
		return nil, err
	}
	r.note(fd.Name, c, offer)
	return r.keep(fd.Name, offer), nil
}

// Look reads lists for a caller, so that they are passed to Note.
func (fd *Feed) Look(ctx context.Context, c *upstream.Caller, kinds ...mcp.ListKind) error {
	caller := c.Clone() // Note may keep it
	share := fd.reader.share(caller)
	defer share.End()
	_, err := fd.readFor(ctx, caller, share, kinds...)
	return err
}

// ListsFor returns all lists for a caller, without withheld definitions: read a short time ago, or
// now; nil if the upstream does not respond. share counts the bytes of lists that are not cached,
// until it ends; it may be nil.
func (fd *Feed) ListsFor(ctx context.Context, c *upstream.Caller) (offer *Offer, share *bodies.Share) {
	offer, share, err := fd.listsFor(ctx, c)
	if err != nil {
		fd.reader.opts.Logger.Warn("the lists of an upstream could not be read for a client", "upstream", fd.Name, "error", err)
	}
	return offer, share
}

func (fd *Feed) listsFor(ctx context.Context, c *upstream.Caller) (offer *Offer, share *bodies.Share, err error) {
	r := fd.reader
	caller := c.Clone() // the reading may outlive the request
	read := func(share *bodies.Share) (*Offer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), r.opts.Timeout)
		defer cancel()
		return fd.readFor(ctx, caller, share, mcp.ListKinds[:]...)
	}
	key, ok := privateKeyOf(c, fd.Name)
	if ok {
		offer, err = r.private.get(ctx, key, fd.Name, func() (*Offer, error) {
			share := r.share(caller)
			defer share.End() // from here on the bounds of the cache apply
			return read(share)
		})
	} else {
		share = r.share(caller)
		if offer, err = read(share); err != nil {
			share.End()
			share = nil
		}
	}
	if errors.Is(err, upstream.ErrNoSubject) {
		return new(Offer), nil, nil // it has no lists for a caller without a token
	}
	if err != nil {
		return nil, nil, err
	}
	return offer, share, nil
}

// Cached returns the last lists that were read for a caller, as [Feed.ListsFor] does, also if they
// are no longer valid; nil without them.
func (fd *Feed) Cached(c *upstream.Caller) *Offer {
	key, ok := privateKeyOf(c, fd.Name)
	if !ok {
		return nil
	}
	return fd.reader.private.last(key)
}

// turn waits until a caller may read private lists: one that is known only by its address, for one
// request at a time. ok is false if ctx ends before.
func (r *Reader) turn(ctx context.Context, c *upstream.Caller) (release func(), ok bool) {
	if _, cached := c.CacheKey(); cached || c == nil || c.Principal == nil {
		return func() {}, true
	}
	return r.turns.take(ctx, c)
}

// turns lets each session of a caller that is known only by its address read private lists for one
// request at a time, because these lists are not cached: every request has a copy of them. Without a
// session the address has the turn.
type turns struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed at the end of the readings; bounded by the requests in flight
}

// take waits for the turn of a caller; ok is false if ctx ends before it.
func (t *turns) take(ctx context.Context, c *upstream.Caller) (release func(), ok bool) {
	key := string(c.Principal.AppendKey(nil))
	if c.HasSession { // other clients may have the address too, behind a NAT
		key = string(c.Session[:])
	}
	for {
		t.mu.Lock()
		before := t.busy[key]
		if before == nil {
			if t.busy == nil {
				t.busy = map[string]chan struct{}{}
			}
			done := make(chan struct{})
			t.busy[key] = done
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.busy, key)
				close(done)
			}, true
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// counted is a transport whose responses are counted in limits.body_bytes while they arrive. The
// share is that of one reading, which reads one response at a time.
type counted struct {
	upstream.Transport
	share *bodies.Share
}

func (c counted) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	resp, err := c.Transport.Post(ctx, r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&bodies.CountedReader{Reader: resp.Body, Share: c.share}, resp.Body}
	}
	return resp, err
}

// Bounds on the cached private lists.
const (
	maxPrivate      = 1024     // each of one caller at one upstream
	maxPrivateBytes = 64 << 20 // of all
	maxPrivateTTL   = time.Minute
)

// privateKey identifies a caller with its credentials, at one upstream.
type privateKey [sha256.Size]byte

// privateKeyOf returns the cache key of a caller's lists at an upstream. ok is false for a caller
// identified only by its address, whose lists are not cached.
func privateKeyOf(c *upstream.Caller, upstream string) (key privateKey, ok bool) {
	caller, ok := c.CacheKey()
	return sha256.Sum256(append(caller[:], upstream...)), ok
}

// privateLists caches the lists that upstreams returned for one caller each, while they are
// valid.
type privateLists struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[privateKey]*list.Element
	order   *list.List // the least recently used first
	bytes   int
}

// privateEntry is one reading for one caller. done is closed when it has ended; the fields below
// are set before.
type privateEntry struct {
	key      privateKey
	upstream string
	done     chan struct{}

	offer *Offer
	err   error
	until time.Time
	bytes int
}

func newPrivateLists(now func() time.Time) privateLists {
	return privateLists{now: now, entries: map[privateKey]*list.Element{}, order: list.New()}
}

// get returns the lists of an upstream for a caller: the cached ones, or the result of read.
// Concurrent calls for the same key share one reading.
func (p *privateLists) get(ctx context.Context, key privateKey, upstream string, read func() (*Offer, error)) (*Offer, error) {
	e, mine := p.entry(key, upstream)
	if mine {
		go func() {
			e.offer, e.err = read()
			p.finish(e)
			close(e.done)
		}()
	}
	select {
	case <-e.done:
		return e.offer, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// last returns the lists of a key, also if they are no longer valid; nil without them.
func (p *privateLists) last(key privateKey) *Offer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.entries[key]; at != nil {
		e := at.Value.(*privateEntry)
		select {
		case <-e.done:
			return e.offer
		default:
		}
	}
	return nil
}

// entry returns the entry of a key; mine is set when the caller must fill it.
func (p *privateLists) entry(key privateKey, upstream string) (e *privateEntry, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.entries[key]; at != nil {
		e := at.Value.(*privateEntry)
		select {
		case <-e.done:
			if e.err == nil && p.now().Before(e.until) {
				p.order.MoveToBack(at)
				return e, false
			}
			p.drop(at)
		default:
			return e, false
		}
	}
	e = &privateEntry{key: key, upstream: upstream, done: make(chan struct{})}
	p.entries[key] = p.order.PushBack(e)
	return e, true
}

// finish stores the result of a reading, and evicts entries over the bounds.
func (p *privateLists) finish(e *privateEntry) {
	e.until = p.now().Add(maxPrivateTTL)
	if e.offer != nil {
		for i := range e.offer.Lists {
			l := &e.offer.Lists[i]
			if l.HasTTL {
				e.until = minTime(e.until, p.now().Add(l.TTL))
			}
		}
		e.bytes = sizeOf(e.offer)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.entries[e.key]; at != nil && at.Value == any(e) {
		p.bytes += e.bytes
	} else {
		e.bytes = 0 // removed meanwhile
	}
	for at := p.order.Front(); at != nil && (p.order.Len() > maxPrivate || p.bytes > maxPrivateBytes); {
		next := at.Next()
		if old := at.Value.(*privateEntry); old != e {
			p.drop(at)
		}
		at = next
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// drop removes an entry. The caller holds mu. Goroutines that wait for it still get its result.
func (p *privateLists) drop(at *list.Element) {
	e := at.Value.(*privateEntry)
	p.order.Remove(at)
	delete(p.entries, e.key)
	select {
	case <-e.done:
		p.bytes -= e.bytes
	default:
	}
}

// forget removes the lists of an upstream for all callers.
func (p *privateLists) forget(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := p.order.Front(); at != nil; {
		next := at.Next()
		if at.Value.(*privateEntry).upstream == upstream {
			p.drop(at)
		}
		at = next
	}
}
