package federation

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/lister"
	"svc/gateway/provenance"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Name is the name of the virtual upstream in audit lines and spans. No configured upstream may
// have it.
const Name = "svc"

// Upstream is one of the upstreams.
type Upstream struct {
	Config    *upstream.Config
	Transport transport.Transport
	// Announcing is a transport for clients of 2026-07-28, whatever the upstream supports, for
	// subscriptions to changes of its lists; nil for no subscriptions.
	Announcing transport.Transport
}

// Options are the parameters of New.
type Options struct {
	// Upstreams are in the order of the file.
	Upstreams []Upstream
	Config    Config
	// Fallback is default_upstream; it may be empty.
	Fallback string
	// StateDir is the directory of owners and capabilities; empty keeps them in memory.
	StateDir string
	// Shared is the store in which replicas share owners; nil without one.
	Shared *catalog.Shared
	// Seen is the store in which replicas share the URIs that callers received; nil without one.
	Seen provenance.Store
	// Key encrypts cursors. Replicas with the same key accept each other's.
	Key []byte
	// Version is the version of the gateway.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
	// May reports whether a client may use an item of an upstream under its visible name: lists
	// are filtered by it.
	May func(c *transport.Caller, kind catalog.Kind, upstream, visible string) bool
	// Tasks returns the store of the upstreams of tasks. It is called once requests are served;
	// it may return nil.
	Tasks func() Tasks
	// Pins compares lists with the approved definitions; may be nil.
	Pins Pins
}

// Tasks finds the upstreams that created tasks.
type Tasks interface {
	// TaskUpstream returns the upstream that created a task of a caller, empty when it is not
	// known.
	TaskUpstream(ctx context.Context, who *auth.Principal, handle string) string
}

// Pins compares the lists of upstreams with the approved definitions (upstreams[].pin_tools).
type Pins interface {
	// Note processes the lists that an upstream returned to a caller, or to the gateway when c is
	// nil.
	Note(upstream string, c *transport.Caller, o *lister.Offer)
	// Keep returns an offer without the withheld definitions; the offer itself is not changed.
	Keep(upstream string, o *lister.Offer) *lister.Offer
}

// Federation is the virtual upstream with the merged lists. Its methods are safe for concurrent
// use.
type Federation struct {
	opts   Options
	names  *catalog.Names
	owners *catalog.Owners
	// declared are the capabilities that upstreams provide.
	declared *declarations
	cursors  catalog.Cursors
	feeds    []*feed // in the order of the file
	mark     string  // mark of the lines around an upstream's instructions
	// first is closed when the first lists were merged; begun is set right before.
	first chan struct{}
	begun atomic.Bool

	building sync.Mutex  // serializes rebuilds
	unshared atomic.Bool // the last access to the store of the owners failed
	current  atomic.Pointer[snapshot]
	private  privateLists
	merged   mergedLists
	watchers watchers
	// seen are the URIs in results, and lookups the times of the last lookups of unknown names.
	seen    *provenance.Memory
	lookups lookups
}

var _ transport.Transport = (*Federation)(nil)

// New returns a Federation. It sends nothing before Run. Owners that cannot be read are logged,
// and the next lists decide again.
func New(opts Options) (*Federation, error) {
	f := &Federation{opts: opts, first: make(chan struct{}), private: newPrivateLists(opts.Now), seen: provenance.New(opts.Now, opts.Seen), lookups: newLookups(opts.Now)}
	var naming []catalog.Naming
	var identities []catalog.Identity
	for _, u := range opts.Upstreams {
		naming = append(naming, NamingOf(u.Config))
		identities = append(identities, Identity(u.Config))
		f.feeds = append(f.feeds, newFeed(u, opts.Version))
	}
	var err error
	if f.names, err = catalog.NewNames(naming); err != nil {
		return nil, err
	}
	path := ""
	if opts.StateDir != "" {
		path = OwnersFile(opts.StateDir)
		if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
			return nil, err
		}
	}
	if f.owners, err = catalog.OpenOwners(path, identities); err != nil {
		f.opts.Logger.Warn("the owners of names are not known: the next lists decide which upstream owns a name", "error", err)
	}
	if opts.Shared != nil {
		_ = f.owners.Share(*opts.Shared) // problems are logged with the next lists
	}
	if f.declared, err = openDeclarations(opts.StateDir, identities); err != nil {
		f.opts.Logger.Warn("the capabilities of upstreams are not known until their lists were read", "error", err)
	}
	key, err := hkdf.Key(sha256.New, opts.Key, nil, "federation cursors", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if f.cursors.AEAD, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	var mark [8]byte
	_, _ = rand.Read(mark[:]) // crypto/rand never fails
	f.mark = hex.EncodeToString(mark[:])
	if err := f.TakeReleases(); err != nil {
		f.opts.Logger.Warn("names that were released still have their owners", "error", err, "fix", "svc tools release again, then SIGHUP")
	}
	f.current.Store(f.build(nil))
	return f, nil
}

// NamingOf returns the naming of the items of an upstream.
func NamingOf(c *upstream.Config) catalog.Naming {
	return catalog.Naming{Upstream: c.Name, Prefix: c.Prefix, Allow: c.Tools.Allow, Deny: c.Tools.Deny, Rename: c.Tools.Rename}
}

// Identity returns the identity of an upstream: with another identity it would own other names.
func Identity(c *upstream.Config) catalog.Identity {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q", c.URL, c.Prefix, c.Tools.Allow, c.Tools.Deny)
	if c.IsProcess() {
		fmt.Fprintf(h, "%q", c.Command)
	}
	var renames []string
	for own, visible := range c.Tools.Rename {
		renames = append(renames, fmt.Sprintf("%q=%q", own, visible))
	}
	slices.Sort(renames)
	fmt.Fprintf(h, "%s", renames)
	return catalog.Identity{Upstream: c.Name, Digest: hex.EncodeToString(h.Sum(nil))}
}

// OwnersFile returns the file of the owners of names.
func OwnersFile(stateDir string) string { return filepath.Join(stateDir, "federation-owners.json") }

// Run reads the lists of every upstream repeatedly until ctx ends, and returns when all
// goroutines have stopped. Call it once. On a nil Federation it does nothing.
func (f *Federation) Run(ctx context.Context) {
	if f == nil {
		return
	}
	var wg sync.WaitGroup
	for _, fd := range f.feeds {
		wg.Go(func() { f.follow(ctx, fd) })
	}
	wg.Go(func() { f.awaitFirst(ctx) })
	wg.Go(func() { f.announcements(ctx) })
	if f.opts.Shared != nil {
		wg.Go(func() { f.followReplicas(ctx) })
	}
	wg.Wait()
	f.save()
}

// awaitFirst closes first when every upstream was read once, or list_timeout has passed: before,
// the order of the file decides which upstream owns a name.
func (f *Federation) awaitFirst(ctx context.Context) {
	timeout := time.NewTimer(f.opts.Config.ListTimeout)
	defer timeout.Stop()
	for _, fd := range f.feeds {
		select {
		case <-fd.asked:
			continue
		case <-timeout.C:
		case <-ctx.Done():
		}
		break
	}
	f.begun.Store(true) // readings that end from here on trigger a merge themselves
	f.rebuild()
	close(f.first)
}

// save writes the owners and capabilities to their files.
func (f *Federation) save() {
	if err := f.declared.save(); err != nil {
		f.opts.Logger.Warn("the capabilities of upstreams were not saved: after a restart those of an upstream that is down are missing", "error", err)
	}
	if err := f.owners.Save(); err != nil {
		f.opts.Logger.Error("the owners of names were not saved: after a restart another upstream could claim a name", "error", err)
	}
}

// Changed handles the notification of an upstream that one of its lists has changed. The lists
// are read again, and the cached lists of each caller are dropped. On a nil Federation it does
// nothing.
func (f *Federation) Changed(upstream string) {
	if f == nil {
		return
	}
	for _, fd := range f.feeds {
		if fd.name == upstream {
			fd.announced.Store(true)
		}
	}
	f.readAgain(upstream)
}

// readAgain requests an early reading of the lists of an upstream.
func (f *Federation) readAgain(upstream string) {
	for _, fd := range f.feeds {
		if fd.name == upstream {
			fd.readAgain()
		}
	}
}

// Approved handles a change of the approved definitions of an upstream: its last lists are merged
// again, and the cached lists of each caller are dropped. On a nil Federation it does nothing.
func (f *Federation) Approved(upstream string) {
	if f == nil {
		return
	}
	for _, fd := range f.feeds {
		if fd.name != upstream {
			continue
		}
		fd.mu.Lock()
		if fd.listed != nil {
			fd.offer = f.keep(fd.name, fd.listed)
		}
		fd.mu.Unlock()
		if f.begun.Load() {
			f.rebuild()
		}
		f.forgetPrivate(fd)
	}
}

// note passes the lists that an upstream returned to a caller, or to the gateway itself, to the
// pins.
func (f *Federation) note(upstream string, c *transport.Caller, o *lister.Offer) {
	if f.opts.Pins != nil {
		f.opts.Pins.Note(upstream, c, o)
	}
}

// keep returns an offer without the withheld definitions.
func (f *Federation) keep(upstream string, o *lister.Offer) *lister.Offer {
	if f.opts.Pins == nil {
		return o
	}
	return f.opts.Pins.Keep(upstream, o)
}

// Stats is the state of the lists of one upstream.
type Stats struct {
	Upstream string
	// Items is the number of items that all clients can see, of every kind; LeftOut that of
	// omitted items.
	Items, LeftOut int
	// Failures is the number of failed readings; Unavailable is set after a failed one.
	Failures    uint64
	Unavailable bool
}

// Stats returns the state of every upstream, in the order of the file; nil for a nil Federation.
func (f *Federation) Stats() []Stats {
	if f == nil {
		return nil
	}
	now := f.current.Load()
	out := make([]Stats, 0, len(f.feeds))
	for _, fd := range f.feeds {
		s := Stats{Upstream: fd.name}
		s.Failures, s.Unavailable = fd.health()
		for _, kind := range catalog.Kinds {
			for _, it := range now.catalog.Items(kind) {
				if it.Upstream == fd.name {
					s.Items++
				}
			}
		}
		for _, left := range now.catalog.LeftOut() {
			if left.Upstream == fd.name && left.Reason != catalog.ReasonHidden {
				s.LeftOut++
			}
		}
		out = append(out, s)
	}
	return out
}
