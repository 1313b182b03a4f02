package catalog

import (
	"context"
	"strings"
)

// SharedClaims are fields of which each has the holder that claimed it first, over all
// replicas of a gateway. A holder is a digest, a space and the name of an upstream.
type SharedClaims interface {
	// Claim gives each field that nobody holds to the holder at the same index, and
	// returns who holds each, empty where no more can be stored. own are the holders that
	// this replica is configured with. With a version the claims are made for that version
	// alone: where before is another, nothing was claimed. before and after are the
	// versions, before is empty where nothing was stored.
	Claim(ctx context.Context, own, fields, holders []string, version string) (kept []string, before, after string, err error)
	// Load returns all fields with their holders, and the version that they have at least.
	Load(ctx context.Context) (fields map[string]string, version string, err error)
	// Drop gives up fields, each where its holder has the name at the same index.
	Drop(ctx context.Context, fields, names []string) error
}

// Shared is where the replicas of a gateway keep owners in common. Templates are apart:
// whether one can be claimed depends on all others.
type Shared struct{ Items, Templates SharedClaims }

// maxSettle bounds how often templates are claimed again that were claimed for another
// version.
const maxSettle = 5

// sharedMap is a map of claims as it was seen last. It is guarded by Owners.sharing.
type sharedMap struct {
	SharedClaims
	kinds   []Kind
	version string // empty while it was never read
}

// born is the part of a version that changes when the store has lost its content.
func born(version string) string {
	if i := strings.LastIndexByte(version, '.'); i >= 0 {
		return version[:i]
	}
	return version
}

// claimed is what an upstream claims.
type claimed struct {
	ownerKey
	upstream string
}

func (c *claimed) field() string { return c.kind.String() + " " + c.key }

// Share keeps the owners in common with other replicas from here on: the first of them that
// claims a name has it for all. It is called before the first Build. While the store does
// not answer, this replica decides by itself on names that nobody is known to own, and
// claims them when the store answers. The error is that of the store.
func (o *Owners) Share(s Shared) error {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	o.mu.Lock()
	for upstream, digest := range o.digests {
		o.holders = append(o.holders, digest+" "+upstream)
	}
	o.shared = []*sharedMap{
		{SharedClaims: s.Items, kinds: []Kind{Tool, Prompt, Resource}, version: o.bornItems},
		{SharedClaims: s.Templates, kinds: []Kind{Template}, version: o.bornTemplates},
	}
	o.mu.Unlock()
	_, o.sharedErr = o.poll()
	return o.sharedErr
}

// Poll takes over what other replicas have claimed and released, and reports whether
// something changed, so that the lists are to be merged anew. It says to the store that this
// replica exists, and is called every few seconds. Without [Owners.Share] it does nothing.
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

// load reads a map of claims, and corrects what is known by it. What this replica owns and
// the map has not was released, unless the map is another than before: then it is claimed
// again. The caller holds sharing.
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
		if kind, ok := parseKind(name); ok && m.has(kind) && o.owned[ownerKey{kind, key}] == nil {
			o.assign(ownerKey{kind, strings.Clone(key)}, holder, "")
		}
	}
	return nil
}

func (m *sharedMap) has(kind Kind) bool {
	for _, k := range m.kinds {
		if k == kind {
			return true
		}
	}
	return false
}

// assign takes over who holds a key at the store; claimant is the upstream that would have
// it here, or empty. The caller holds mu.
func (o *Owners) assign(k ownerKey, holder, claimant string) {
	digest, upstream, ok := strings.Cut(holder, " ")
	known, configured := o.digests[upstream]
	if !ok || !configured { // full, or an upstream of another configuration
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

// settle claims what items ask for and nobody is known to own here, and what was not claimed
// yet, so that all replicas have the same owners. An error leaves the rest pending.
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
	for _, m := range o.shared { // what other replicas have is known before it is claimed
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
		case Resource:
			resources = append(resources, c)
		case Template:
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

// open returns what was not claimed yet, in the order of the file.
func (o *Owners) open(items []*Item) (out []claimed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, w := range o.owned {
		if w.pending {
			out = append(out, claimed{k, w.upstream})
		}
	}
	for _, it := range items {
		k := ownerKey{it.Kind, it.Visible}
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

// settleTemplates claims templates. Which can be claimed depends on those that others have:
// they are claimed for the version that was looked at, and again when it is another.
func (o *Owners) settleTemplates(items []*Item) error {
	m := o.shared[1]
	for range maxSettle {
		all := map[string]string{}
		o.mu.Lock()
		for k, w := range o.owned {
			if k.kind == Template && !w.pending {
				all[k.key] = w.upstream
			}
		}
		o.mu.Unlock()
		heads := newHeads(all)
		var claims []claimed
		for _, c := range o.open(items) {
			if c.kind != Template {
				continue
			}
			if _, covered := heads.covers(c.key, c.upstream); covered {
				if o.has(&c) { // decided here, and otherwise by a replica that was earlier
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
	return nil // the next lists are another attempt
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
	if before == m.version { // else other replicas have changed something that Poll takes over
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

// record takes over who holds what was claimed.
func (o *Owners) record(claims []claimed, kept []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range min(len(claims), len(kept)) {
		o.assign(claims[i].ownerKey, kept[i], claims[i].upstream)
	}
}

// dropForgotten gives up at the store what an upstream with too many names had to release.
func (o *Owners) dropForgotten() {
	o.mu.Lock()
	dropped := o.forgotten
	o.forgotten = nil
	o.mu.Unlock()
	if len(dropped) > 0 && o.sharedErr == nil {
		o.sharedErr = o.drop(dropped)
	}
}

// drop gives up keys at the store. The caller holds sharing.
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

// SharedErr returns the last error of the store of shared owners, nil while it answers.
func (o *Owners) SharedErr() error {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	return o.sharedErr
}
