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
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/redis"
	"svc/gateway/upstream"
)

// Name is the name of the virtual upstream in audit lines and spans. No configured upstream may
// have it.
const Name = "svc"

// Options are the parameters of New.
type Options struct {
	// Lists reads the lists of the upstreams. It runs apart from the Federation.
	Lists  *catalog.Reader
	Config Config
	// Fallback is default_upstream; it may be empty.
	Fallback string
	// StateDir is the directory of owners and capabilities; empty keeps them in memory.
	StateDir string
	// Shared is the store in which replicas share owners; nil without one.
	Shared *catalog.Shared
	// Seen is the store in which replicas share the URIs that callers received; nil without one.
	Seen *redis.Redis
	// Key encrypts cursors. Replicas with the same key accept each other's.
	Key []byte
	// Version is the version of the gateway.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
	// May reports whether a client may use an item of an upstream under its visible name: lists
	// are filtered by it.
	May func(c *upstream.Caller, kind mcp.ListKind, upstream, visible string) bool
	// Tasks returns the store of the upstreams of tasks. It is called once requests are served;
	// it may return nil.
	Tasks func() Tasks
}

// Tasks finds the upstreams that created tasks.
type Tasks interface {
	// TaskUpstream returns the upstream that created a task of a caller, empty when it is not
	// known.
	TaskUpstream(ctx context.Context, who *auth.Principal, handle string) string
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
	merge    *catalog.Merge
	feeds    []*catalog.Feed // in the order of the file
	mark     string          // mark of the lines around an upstream's instructions
	noted    map[string]bool // upstreams whose addresses were reported; used by changed

	unshared atomic.Bool // the last access to the store of the owners failed
	watchers watchers
	private  map[string]*privateChange // by upstream
	// seen are the URIs in results, and lookups the times of the last lookups of unknown names.
	seen    *catalog.Provenance
	lookups lookups
	// toldApps are the upstreams of which tools for apps alone were reported.
	toldApps sync.Map
}

var _ upstream.Transport = (*Federation)(nil)

// New returns a Federation of all upstreams of opts.Lists. It sends nothing. Owners that cannot be read are logged,
// and the next lists decide again.
func New(opts Options) (*Federation, error) {
	f := &Federation{opts: opts, feeds: opts.Lists.Feeds(), private: map[string]*privateChange{}, seen: catalog.NewProvenance(opts.Now, opts.Seen), lookups: newLookups(opts.Now), noted: map[string]bool{}}
	var naming []catalog.Naming
	var identities []catalog.Identity
	for _, fd := range f.feeds {
		naming = append(naming, NamingOf(fd.Config))
		identities = append(identities, Identity(fd.Config))
		f.private[fd.Name] = &privateChange{wake: make(chan struct{}, 1)}
	}
	var err error
	if f.names, err = catalog.NewMergedNames(naming); err != nil {
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
	f.merge = catalog.NewMerge(catalog.MergeOptions{
		Lists: opts.Lists, Feeds: f.feeds, Need: catalog.Need{Kinds: mcp.ListKinds[:], Interval: opts.Config.RefreshInterval, Merged: true},
		Names: f.names, Owners: f.owners, Wait: opts.Config.ListTimeout, StaleFor: opts.Config.StaleFor, Now: opts.Now, Changed: f.changed,
	})
	for _, fd := range f.feeds { // after the merge has followed it
		fd.Follow(catalog.Need{Read: func(_ *catalog.Offer, announced []mcp.ListKind) { f.announce(fd, announced) }})
	}
	if err := f.TakeReleases(); err != nil {
		f.opts.Logger.Warn("names that were released still have their owners", "error", err, "fix", "svc tools release again, then SIGHUP")
	}
	return f, nil
}

// Merge returns the merged lists; nil for a nil Federation.
func (f *Federation) Merge() *catalog.Merge {
	if f == nil {
		return nil
	}
	return f.merge
}

// Addresses returns the skill:// and ui:// addresses of the upstreams; nil if they stay as they are.
func (f *Federation) Addresses() *catalog.Addresses {
	if f == nil {
		return nil
	}
	return f.names.Addresses()
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

// Run applies the names of other replicas and notifies clients until ctx ends, and returns when all
// goroutines have stopped. Call it once. On a nil Federation it does nothing.
func (f *Federation) Run(ctx context.Context) {
	if f == nil {
		return
	}
	var wg sync.WaitGroup
	for _, fd := range f.feeds {
		wg.Go(func() { f.followPrivate(ctx, fd) })
	}
	if f.opts.Shared != nil {
		wg.Go(func() { f.followReplicas(ctx) })
	}
	wg.Wait()
	f.save()
}

// changed stores what a merge has decided, reports omitted items, and notifies the watching clients.
func (f *Federation) changed(before, after *catalog.Snapshot) {
	for name, offer := range after.Offers {
		f.declared.note(name, offer.Capabilities)
	}
	f.report(before.Catalog, after.Catalog)
	f.reportAddresses(after)
	f.notifyShared(before.Catalog, after.Catalog)
	f.reportStore()
	f.save()
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

// announce has the private lists of an upstream compared after a change.
func (f *Federation) announce(fd *catalog.Feed, announced []mcp.ListKind) {
	private := f.merge.Current().Private[fd.Name]
	f.private[fd.Name].add(slices.DeleteFunc(slices.Clone(announced), func(k mcp.ListKind) bool { return !slices.Contains(private, k) }))
}

// contain recovers a panic of a goroutine, which would end the process; it must be deferred.
func (f *Federation) contain(what string) {
	if p := recover(); p != nil {
		f.opts.Logger.Error("panic", "in", "federation: "+what, "panic", p, "stack", string(debug.Stack()))
	}
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
	now := f.merge.Current().Catalog
	out := make([]Stats, 0, len(f.feeds))
	for _, fd := range f.feeds {
		s := Stats{Upstream: fd.Name}
		s.Failures, s.Unavailable = fd.Health()
		for _, kind := range mcp.ListKinds {
			for _, it := range now.Items(kind) {
				if it.Upstream == fd.Name {
					s.Items++
				}
			}
		}
		for _, left := range now.LeftOut() {
			if left.Upstream == fd.Name && left.Reason != catalog.ReasonHidden {
				s.LeftOut++
			}
		}
		out = append(out, s)
	}
	return out
}
