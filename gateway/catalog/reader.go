package catalog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// Pauses between two readings of an upstream.
const (
	minRefresh = time.Second
	// minAnnounced is the average pause between two early readings, after list_changed or for a
	// waiting client: after a quiet time up to maxAnnounced of them need only minBurst (token
	// bucket).
	minAnnounced = 5 * time.Second
	maxAnnounced = 10
	minBurst     = 100 * time.Millisecond
	firstBackoff = 30 * time.Second
	maxBackoff   = 30 * time.Minute
	// readRate is the average number of bytes per second of the lists of one upstream that the
	// gateway reads for itself: larger lists are read less often, because using them takes time.
	readRate = 4 << 20
)

// agent is the name of the gateway in the requests of its readings.
const agent = "svc-lists"

// ReaderOptions are the parameters of NewReader.
type ReaderOptions struct {
	// Upstreams are in the order of the file; Targets has each of them by its name. A target
	// without a Transport gets no subscriptions.
	Upstreams []upstream.Config
	Targets   map[string]*upstream.Upstream
	// Timeout bounds a reading for a caller, and the wait for the first byte of a subscription.
	Timeout time.Duration
	// Version is the version of the gateway.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
	// Note receives the lists of each reading as the upstream sent them: to a caller, or to the
	// gateway itself if c is nil. Keep returns them without withheld definitions. Both may be nil.
	Note func(upstream string, c *upstream.Caller, o *Offer)
	Keep func(upstream string, o *Offer) *Offer
	// Bodies counts the lists that are read for callers (limits.body_bytes).
	Bodies *bodies.Counter
}

// Need is what one part of the gateway needs of the lists of an upstream.
type Need struct {
	// Kinds are read at intervals. An upstream of which no part needs a kind is read only for
	// callers.
	Kinds []mcp.ListKind
	// Interval is the longest time between two readings of Kinds.
	Interval time.Duration
	// Merged is set if clients get the lists. Then private lists are read when their callers
	// request them.
	Merged bool
	// Check returns the reason why the lists of a reading are of no use, which is a failure of the
	// reading; it may be nil.
	Check func(*Offer) error
	// Read is called after a reading with its lists without withheld definitions, nil after a
	// failure; it may be nil. announced are the kinds of which the lists of all callers may have
	// changed: the upstream announced a change, or other definitions are approved.
	Read func(o *Offer, announced []mcp.ListKind)
}

// Reader reads the lists of upstreams, once for all parts of the gateway that need them. Its
// methods are safe for concurrent use, and on a nil Reader they do nothing.
type Reader struct {
	opts    ReaderOptions
	feeds   []*Feed
	merges  []*Merge
	private privateLists
	skills  *SkillPaths
	turns   turns
	wanted  wanted
	away    atomic.Int32 // upstreams that could not be reached for their last reading
}

// NewReader returns a reader that sends nothing before Run.
func NewReader(opts ReaderOptions) *Reader {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Reader{opts: opts, private: newPrivateLists(opts.Now), skills: NewSkillPaths()}
	for i := range opts.Upstreams {
		c := &opts.Upstreams[i]
		target := opts.Targets[c.Name]
		r.feeds = append(r.feeds, &Feed{
			Name: c.Name, Config: c, Announcing: target.Transport, reader: r, perCaller: c.PerCaller(),
			lister: Lister{Transport: target.Direct, Agent: agent, Version: opts.Version, Protocol: c.Protocol},
			asked:  make(chan struct{}), again: make(chan struct{}, 1), readings: make(chan struct{}, maxReadings),
		})
	}
	return r
}

// Feeds returns all upstreams, in the order of the file.
func (r *Reader) Feeds() []*Feed { return r.feeds }

// Skills returns the skills that upstreams have; nil for a nil Reader.
func (r *Reader) Skills() *SkillPaths {
	if r == nil {
		return nil
	}
	return r.skills
}

// Feed returns an upstream; nil for an unknown one.
func (r *Reader) Feed(name string) *Feed {
	if r != nil {
		for _, fd := range r.feeds {
			if fd.Name == name {
				return fd
			}
		}
	}
	return nil
}

// Run reads and merges the needed lists repeatedly until ctx ends, and returns when all goroutines
// have stopped. Call it once.
func (r *Reader) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, fd := range r.feeds {
		if len(fd.kinds) > 0 {
			wg.Go(func() { fd.follow(ctx) })
		}
	}
	for _, m := range r.merges {
		wg.Go(func() { m.awaitFirst(ctx) })
	}
	wg.Go(func() { r.announcements(ctx) })
	wg.Wait()
}

// Changed handles the notification of an upstream that one of its lists has changed: they are read
// again early, also those of callers. method is that of the notification; empty if any list may
// have changed.
func (r *Reader) Changed(upstream, method string) {
	if fd := r.Feed(upstream); fd != nil {
		fd.announced.Or(announcedBy(method))
		fd.ReadAgain()
	}
}

// anyKind stands for all kinds that an upstream offers, among bits that each stand for one.
const anyKind = 1 << mcp.NumListKinds

// announcedBy returns the bits of the kinds that a notification is about.
func announcedBy(method string) (bits uint32) {
	switch method {
	case mcp.NotificationToolsChanged:
		return 1 << mcp.Tool
	case mcp.NotificationPromptsChanged:
		return 1 << mcp.Prompt
	case mcp.NotificationResourcesChanged:
		return 1<<mcp.Resource | 1<<mcp.Template | 1<<mcp.Skill // skill files are resources
	}
	return anyKind
}

// announcedKinds returns the kinds of bits. offer is the last one; nil if it is not known.
func (fd *Feed) announcedKinds(bits uint32, offer *Offer) (kinds []mcp.ListKind) {
	for _, kind := range mcp.ListKinds {
		if bits&(1<<kind) != 0 || bits&anyKind != 0 && (offer == nil || fd.perCaller || offer.offers(kind)) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Reached handles that a request of a client reached an upstream: if it could not be reached for
// the last reading, it is read again early.
func (r *Reader) Reached(upstream string) {
	if r == nil || r.away.Load() == 0 { // as for nearly every request
		return
	}
	if fd := r.Feed(upstream); fd != nil && fd.away.Load() {
		fd.ReadAgain()
	}
}

// Approved handles a change of the approved definitions of an upstream: its last lists are used
// again, and those of callers are read again.
func (r *Reader) Approved(upstream string) {
	fd := r.Feed(upstream)
	if fd == nil {
		return
	}
	fd.mu.Lock()
	listed := fd.listed
	if listed != nil {
		fd.offer = r.keep(fd.Name, listed)
	}
	offer := fd.offer
	fd.mu.Unlock()
	if listed != nil {
		fd.hand(offer, fd.announcedKinds(anyKind, offer))
	}
}

func (r *Reader) note(upstream string, c *upstream.Caller, o *Offer) {
	if r.opts.Note != nil {
		r.opts.Note(upstream, c, o)
	}
}

func (r *Reader) keep(upstream string, o *Offer) *Offer {
	if r.opts.Keep == nil {
		return o
	}
	return r.opts.Keep(upstream, o)
}
