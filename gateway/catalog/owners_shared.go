package catalog

import (
	"context"
	"strings"

	"svc/gateway/mcp"
)

// SharedClaims is a shared map from fields to holders, in which the first claim of a field takes
// effect, over all replicas of a gateway. A holder is a digest, a space and the name of an
// upstream.
type SharedClaims interface {
	// Claim gives each field without a holder to the holder at the same index, and returns the
	// holder of each field, empty when the store is full. own are the configured holders of this
	// replica. A non-empty version makes the claims conditional (compare-and-swap): if before
	// differs from it, nothing was claimed. before and after are the versions around the claim;
	// before is empty if the store had no content.
	Claim(ctx context.Context, own, fields, holders []string, version string) (kept []string, before, after string, err error)
	// Load returns all fields with their holders, and a version that is not newer than the
	// fields. The holder is empty if no replica has set the field: it is ignored.
	Load(ctx context.Context) (fields map[string]string, version string, err error)
	// Drop removes fields, each if its holder has the name at the same index.
	Drop(ctx context.Context, fields, names []string) error
}

// Shared is the store in which the replicas of a gateway share owners. Templates have a map of
// their own, because a claim of one depends on all others.
type Shared struct{ Items, Templates SharedClaims }

// maxSettle bounds how often claims of templates are repeated after a change of the version.
const maxSettle = 5

// sharedMap is the local copy of a map of claims. Owners.sharing guards it.
type sharedMap struct {
	SharedClaims
	kinds   []mcp.ListKind
	version string // empty until it was read
}

// born returns the part of a version that changes when the store has lost its content.
func born(version string) string {
	if i := strings.LastIndexByte(version, '.'); i >= 0 {
		return version[:i]
	}
	return version
}

// claimed is a key that an upstream claims.
type claimed struct {
	ownerKey
	upstream string
}

func (c *claimed) field() string { return c.kind.String() + " " + c.key }

// Share shares the owners with other replicas from here on: the first replica that claims a name
// determines its owner for all. Share must be called before the first Build. While the store is
// unavailable, this replica decides alone on names without a known owner, and claims them when
// the store is available again. The error is that of the store.
func (o *Owners) Share(s Shared) error {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	o.mu.Lock()
	for upstream, digest := range o.digests {
		o.holders = append(o.holders, digest+" "+upstream)
	}
	o.shared = []*sharedMap{
		{SharedClaims: s.Items, kinds: []mcp.ListKind{mcp.Tool, mcp.Prompt, mcp.Resource}, version: o.bornItems},
		{SharedClaims: s.Templates, kinds: []mcp.ListKind{mcp.Template}, version: o.bornTemplates},
	}
	o.mu.Unlock()
	_, o.sharedErr = o.poll()
	return o.sharedErr
}

// Poll applies the claims and releases of other replicas, and reports whether the owners changed,
// so that the lists must be merged again. It also refreshes this replica's entry in the store,
// and must be called every few seconds. Without [Owners.Share] it does nothing.
func (o *Owners) Poll() (changed bool, err error) {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	changed, o.sharedErr = o.poll()
	return changed, o.sharedErr
}

func (o *Owners) poll() (changed bool, err error) {
	for _, m := range o.shared {
		_, before, after, err := m.Claim(context.Background(), o.holders, nil, nil, "")
		if err != nil {
			return changed, err
		}
		if before == m.version && before != "" {
			continue
		}
		if err := o.load(m, before == "", after); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed || o.anyPending(), nil
}

func (o *Owners) anyPending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shared == nil {
		return false
	}
	for _, w := range o.owned {
		if w.pending {
			return true
		}
	}
	return false
}

// load reads a map of claims and updates the local owners. A key that this replica owns and that
// is not in the map was released by another replica, unless the store has lost its content: then
// the key is claimed again. The caller holds sharing.
func (o *Owners) load(m *sharedMap, isNew bool, version string) error {
	fields := map[string]string{}
	if !isNew {
		var err error
		if fields, version, err = m.Load(context.Background()); err != nil {
			return err
		}
	}
	again := born(version) != born(m.version)
	m.version = version
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, w := range o.owned {
		if !m.has(k.kind) {
			continue
		}
		holder, ok := fields[(&claimed{ownerKey: k}).field()]
		switch {
		case ok && holder == "":
			w.pending = true // somebody else has replaced the claim
		case ok:
			o.assign(k, holder, w.upstream)
		case w.pending:
		case again && !w.foreign:
			w.pending = true
		default:
			o.forget(k)
		}
	}
	for field, holder := range fields {
		name, key, _ := strings.Cut(field, " ")
		if kind, ok := mcp.ParseListKind(name); ok && m.has(kind) && o.owned[ownerKey{kind, key}] == nil {
			o.assign(ownerKey{kind, strings.Clone(key)}, holder, "")
		}
	}
	return nil
}

func (m *sharedMap) has(kind mcp.ListKind) bool {
	for _, k := range m.kinds {
		if k == kind {
			return true
		}
	}
	return false
}

// assign applies the holder of a key in the store; claimant is the upstream that claimed it here,
// or empty. The caller holds mu.
func (o *Owners) assign(k ownerKey, holder, claimant string) {
	digest, upstream, ok := strings.Cut(holder, " ")
	known, configured := o.digests[upstream]
	if !ok || !configured { // the store is full, or the upstream has other settings
		if claimant == "" {
			return
		}
		upstream, digest = claimant, o.digests[claimant]
		known = digest
	}
	if w := o.owned[k]; w != nil {
		if w.upstream == upstream {
			o.changed = o.changed || w.foreign != (digest != known)
			w.pending, w.foreign = false, digest != known
			return
		}
		o.forget(k)
	}
	if o.count[upstream] >= maxOwned {
		o.forgetOldest(upstream)
	}
	o.add(k, upstream)
	if w := o.owned[k]; w != nil {
		w.foreign = digest != known
	}
}

// settle claims the keys of items without a known owner, and pending keys, so that all replicas
// have the same owners. After an error the remaining keys stay pending.
func (o *Owners) settle(items []*Item) {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	if o.shared == nil {
		return
	}
	o.sharedErr = o.settleAll(items)
	o.dropForgotten()
}

func (o *Owners) settleAll(items []*Item) error {
	open := o.open(items)
	if len(open) == 0 {
		return nil
	}
	for _, m := range o.shared { // read the claims of other replicas before claiming
		if m.version == "" {
			if _, err := o.poll(); err != nil {
				return err
			}
			open = o.open(items)
			break
		}
	}
	var named, resources []claimed
	templates := false
	for _, c := range open {
		switch c.kind {
		case mcp.Resource:
			resources = append(resources, c)
		case mcp.Template:
			templates = true
		default:
			named = append(named, c)
		}
	}
	if err := o.claimAt(o.shared[0], named); err != nil {
		return err
	}
	if templates {
		if err := o.settleTemplates(items); err != nil {
			return err
		}
	}
	heads := newHeads(o.templates())
	kept := resources[:0]
	for _, c := range resources {
		if owner, covered := heads.ownerOf(c.key); !covered || owner == c.upstream || o.has(&c) {
			kept = append(kept, c)
		}
	}
	return o.claimAt(o.shared[0], kept)
}

// open returns the keys to claim, in the order of the file.
func (o *Owners) open(items []*Item) (out []claimed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, w := range o.owned {
		if w.pending {
			out = append(out, claimed{k, w.upstream})
		}
	}
	for _, it := range items {
		k := it.ownerKey()
		if w := o.owned[k]; w == nil || w.foreign {
			out = append(out, claimed{k, it.Upstream})
		}
	}
	return out
}

func (o *Owners) has(c *claimed) bool {
	owner, ok := o.Of(c.kind, c.key)
	return ok && owner == c.upstream
}

// settleTemplates claims templates. Whether one can be claimed depends on the others, so the
// claim is conditional on the version that was read, and is repeated when the version has
// changed.
func (o *Owners) settleTemplates(items []*Item) error {
	m := o.shared[1]
	for range maxSettle {
		all := map[string]string{}
		o.mu.Lock()
		for k, w := range o.owned {
			if k.kind == mcp.Template && !w.pending {
				all[k.key] = w.upstream
			}
		}
		o.mu.Unlock()
		heads := newHeads(all)
		var claims []claimed
		for _, c := range o.open(items) {
			if c.kind != mcp.Template {
				continue
			}
			if _, covered := heads.covers(c.key, c.upstream); covered {
				if o.has(&c) { // decided here, and differently by an earlier replica
					o.mu.Lock()
					o.forget(c.ownerKey)
					o.mu.Unlock()
				}
				continue
			}
			heads.add(c.key, c.upstream)
			claims = append(claims, c)
		}
		if len(claims) == 0 {
			return nil
		}
		fields, holders := o.fieldsOf(claims)
		kept, before, after, err := m.Claim(context.Background(), o.holders, fields, holders, m.version)
		if err != nil {
			return err
		}
		if before == m.version {
			m.version = after
			o.record(claims, kept)
			return nil
		}
		if err := o.load(m, before == "", after); err != nil {
			return err
		}
	}
	return nil // the next merge tries again
}

// claimAt claims names and uris.
func (o *Owners) claimAt(m *sharedMap, claims []claimed) error {
	if len(claims) == 0 {
		return nil
	}
	fields, holders := o.fieldsOf(claims)
	kept, before, after, err := m.Claim(context.Background(), o.holders, fields, holders, "")
	if err != nil {
		return err
	}
	if before == m.version { // otherwise other replicas made changes, which Poll applies
		m.version = after
	}
	o.record(claims, kept)
	return nil
}

func (o *Owners) fieldsOf(claims []claimed) (fields, holders []string) {
	for i := range claims {
		fields = append(fields, claims[i].field())
		holders = append(holders, o.digests[claims[i].upstream]+" "+claims[i].upstream)
	}
	return fields, holders
}

// record applies the holders that a claim returned.
func (o *Owners) record(claims []claimed, kept []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range min(len(claims), len(kept)) {
		o.assign(claims[i].ownerKey, kept[i], claims[i].upstream)
	}
}

// dropForgotten removes from the store the names that an upstream with too many names had to
// release.
func (o *Owners) dropForgotten() {
	o.mu.Lock()
	dropped := o.forgotten
	o.forgotten = nil
	o.mu.Unlock()
	if len(dropped) > 0 && o.sharedErr == nil {
		o.sharedErr = o.drop(dropped)
	}
}

// drop removes keys from the store. The caller holds sharing.
func (o *Owners) drop(keys []claimed) error {
	for _, m := range o.shared {
		var fields, names []string
		for i := range keys {
			if m.has(keys[i].kind) {
				fields, names = append(fields, keys[i].field()), append(names, keys[i].upstream)
			}
		}
		if err := m.Drop(context.Background(), fields, names); err != nil {
			return err
		}
	}
	return nil
}

// SharedErr returns the last error of the store of shared owners, nil after a success.
func (o *Owners) SharedErr() error {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	return o.sharedErr
}
