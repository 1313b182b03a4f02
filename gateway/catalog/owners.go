package catalog

import (
	"encoding/json"
	"strings"
	"sync"

	"svc/gateway/base/files"
	"svc/gateway/mcp"
)

// Bounds on the stored owners.
const (
	// maxOwned bounds the stored names of one upstream; the names that it has not listed for the
	// longest time are released first. Only the upstream itself can make its names reach the
	// bound.
	maxOwned      = 4 * MaxItems
	maxOwnersFile = 256 << 20
	ownersVersion = 1
)

// Identity identifies an upstream across restarts. The names that it owns are released when any
// part changes.
type Identity struct {
	Upstream string
	// Digest covers the settings that determine the upstream and the names of its items: url or
	// command, prefix and tools.
	Digest string
}

// Owners stores which upstream owns a name, uri or template. The owner keeps it while it is down
// or does not list it, so that no other upstream can take it over. It is safe for concurrent use.
type Owners struct {
	path   string
	saving sync.Mutex // serializes writes of the file; locked before mu
	// route, if set, decides alone who owns a tool; then nothing is stored.
	route func(tool string) (upstream string, ok bool)

	sharing   sync.Mutex // serializes use of the store; locked before mu
	shared    []*sharedMap
	holders   []string // configured holders of this replica
	sharedErr error

	mu      sync.Mutex
	turn    uint64 // number of merged lists
	owned   map[ownerKey]*owned
	count   map[string]int // by upstream
	heads   *heads         // heads of all templates; nil when one has changed
	digests map[string]string
	changed bool
	// bornItems and bornTemplates identify the content of the store that the owners in the file
	// were read from; empty for owners that are not shared.
	bornItems, bornTemplates string
	forgotten                []claimed // released here and not yet in the store
}

type ownerKey struct {
	kind mcp.ListKind
	key  string
}

type owned struct {
	upstream string
	turn     uint64 // merge counter at the last list that had the key
	pending  bool   // shared owners: not yet claimed in the store
	foreign  bool   // shared owners: owned by an upstream of that name with other settings
}

// ownersFile is the content of the file.
type ownersFile struct {
	Version   int                           `json:"version"`
	Upstreams map[string]ownersFileUpstream `json:"upstreams"`
	// Items and Templates identify the content of the shared store; empty without one.
	Items     string `json:"items,omitempty"`
	Templates string `json:"templates,omitempty"`
}

type ownersFileUpstream struct {
	Digest string              `json:"digest"`
	Owned  map[string][]string `json:"owned"` // keys by kind
}

// OpenOwners reads the owners from a file; an empty path keeps them in memory. The names of
// upstreams that are not in identities, or that have changed, are released. If the file cannot be
// read, OpenOwners returns an error and usable empty owners, with which the next lists decide
// again.
func OpenOwners(path string, identities []Identity) (*Owners, error) {
	o := &Owners{path: path, owned: map[ownerKey]*owned{}, count: map[string]int{}, digests: make(map[string]string, len(identities))}
	for _, id := range identities {
		o.digests[id.Upstream] = id.Digest
	}
	if path == "" {
		return o, nil
	}
	file, err := readOwners(path)
	if err != nil || file == nil {
		return o, err
	}
	for upstream, u := range file.Upstreams {
		if digest, known := o.digests[upstream]; !known || digest != u.Digest {
			continue
		}
		for name, keys := range u.Owned {
			kind, ok := mcp.ParseListKind(name)
			if !ok {
				continue // written by a later release
			}
			for _, key := range keys {
				o.add(ownerKey{kind, strings.Clone(key)}, upstream)
			}
		}
	}
	o.bornItems, o.bornTemplates = file.Items, file.Templates
	o.changed = false
	return o, nil
}

// RoutedOwners returns owners for which each tool belongs to the upstream that a call of it reaches.
func RoutedOwners(route func(tool string) (upstream string, ok bool)) *Owners {
	return &Owners{route: route}
}

// ReadOwned returns the keys of every kind that an upstream owns according to a file of owners;
// none if there is no file.
func ReadOwned(path, upstream string) (map[string]bool, error) {
	file, err := readOwners(path)
	if err != nil || file == nil {
		return nil, err
	}
	owned := map[string]bool{}
	for _, keys := range file.Upstreams[upstream].Owned {
		for _, key := range keys {
			owned[key] = true
		}
	}
	return owned, nil
}

// readOwners reads a file of owners; nil if there is none.
func readOwners(path string) (*ownersFile, error) {
	var file ownersFile
	if found, err := files.ReadJSON(path, maxOwnersFile, &file, &file.Version, ownersVersion); !found {
		return nil, err
	}
	return &file, nil
}

func (o *Owners) add(k ownerKey, upstream string) {
	if o.owned[k] != nil || o.count[upstream] >= maxOwned {
		return
	}
	o.owned[k] = &owned{upstream: upstream, turn: o.turn}
	o.count[upstream]++
	o.noteChange(k.kind)
}

// noteChange records that a key of a kind has another owner. The caller holds mu.
func (o *Owners) noteChange(kind mcp.ListKind) {
	o.changed = true
	if kind == mcp.Template {
		o.heads = nil
	}
}

// forget removes a key. The caller holds mu.
func (o *Owners) forget(k ownerKey) {
	if w := o.owned[k]; w != nil {
		delete(o.owned, k)
		o.count[w.upstream]--
		o.noteChange(k.kind)
	}
}

// Of returns the owner of a key.
func (o *Owners) Of(kind mcp.ListKind, key string) (upstream string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.owned[ownerKey{kind, key}]; w != nil {
		return w.upstream, true
	}
	return "", false
}

// AddressOwner returns the upstream of a skill:// or ui:// address that a client names, listed or not: its
// first segment alone decides, or it is the only upstream. ours is false for other names and URIs; the error
// is an *[AddressError].
func (n *Names) AddressOwner(kind mcp.ListKind, visible string) (upstream string, ours bool, err error) {
	if n == nil || kind.Named() {
		return "", false, nil
	}
	if n.only != "" {
		_, _, strict := splitAddress(visible)
		return n.only, strict, nil
	}
	upstream, _, ours, err = n.addresses.of(kind, visible)
	return upstream, ours, err
}

// addressProblem returns why no client may use an address.
func (n *Names) addressProblem(kind mcp.ListKind, visible string) string {
	if _, _, err := n.AddressOwner(kind, visible); err != nil {
		return err.Error()
	}
	return ""
}

// Owner returns the upstream that requests for a name or uri go to, listed now or not: by the
// prefix of its name, by the form of an address, by the owners, by the head of a template.
func (n *Names) Owner(owners *Owners, kind mcp.ListKind, visible string) (upstream string, ok bool) {
	if kind.Named() {
		if upstream, ok := n.ByPrefix(visible); ok {
			return upstream, true
		}
	}
	if upstream, ours, err := n.AddressOwner(kind, visible); ours {
		return upstream, err == nil
	}
	if upstream, ok := owners.Of(kind, visible); ok {
		return upstream, true
	}
	if kind == mcp.Resource || kind == mcp.Skill {
		return owners.ofHead(visible)
	}
	return "", false
}

// ofHead returns the owner of the longest head of a uri.
func (o *Owners) ofHead(uri string) (upstream string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.heads == nil {
		o.heads = newHeads(o.templatesLocked())
	}
	return o.heads.ownerOf(uri)
}

// OfDirectory returns the owner of a directory: of a skill, or of several of one upstream.
func (o *Owners) OfDirectory(uri string) (upstream string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.heads == nil {
		o.heads = newHeads(o.templatesLocked())
	}
	return o.heads.ofDirectory(uri)
}

// next begins a merge of lists.
func (o *Owners) next() {
	o.mu.Lock()
	o.turn++
	o.mu.Unlock()
}

// claim makes upstream the owner of a key that has none, and returns the owner.
func (o *Owners) claim(kind mcp.ListKind, key, upstream string) (owner string) {
	if o.route != nil {
		if owner, ok := o.route(key); ok {
			return owner
		}
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	k := ownerKey{kind, key}
	if w := o.owned[k]; w != nil {
		if w.upstream == upstream {
			w.turn = o.turn
		}
		return w.upstream
	}
	if o.count[upstream] >= maxOwned {
		o.forgetOldest(upstream)
	}
	o.add(k, upstream)
	if w := o.owned[k]; w != nil {
		w.pending = o.shared != nil // the store was unavailable
	}
	return upstream
}

// templates returns the owners of all templates.
func (o *Owners) templates() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.templatesLocked()
}

func (o *Owners) templatesLocked() map[string]string {
	out := map[string]string{}
	for k, w := range o.owned {
		if k.kind == mcp.Template {
			out[k.key] = w.upstream
		}
	}
	return out
}

// forgetOldest releases the quarter of the upstream's names that it has not listed for the
// longest time. The caller holds mu.
func (o *Owners) forgetOldest(upstream string) {
	oldest, n := o.turn, 0
	for _, w := range o.owned {
		if w.upstream == upstream {
			oldest = min(oldest, w.turn)
		}
	}
	for k, w := range o.owned {
		if n >= maxOwned/4 {
			break
		}
		if w.upstream == upstream && w.turn == oldest && oldest < o.turn {
			o.forget(k)
			if o.shared != nil {
				o.forgotten = append(o.forgotten, claimed{k, upstream})
			}
			n++
		}
	}
}

// Release releases the keys of one upstream with the visible form key, of every kind, and returns
// how many there were. The next list with the key claims it. After an error, which is that of the
// store of shared owners, no key was released.
func (o *Owners) Release(upstream, key string) (n int, err error) {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	var all []claimed
	for _, kind := range mcp.ListKinds {
		all = append(all, claimed{(&Item{Kind: kind, Visible: key}).ownerKey(), upstream})
	}
	if err := o.drop(all); err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range all {
		if w := o.owned[c.ownerKey]; w != nil && w.upstream == upstream {
			o.forget(c.ownerKey)
			n++
		}
	}
	return n, nil
}

// Save writes the owners to their file if they have changed.
func (o *Owners) Save() error {
	if o.path == "" {
		return nil
	}
	o.saving.Lock()
	defer o.saving.Unlock()
	o.noteBorn()
	file, changed := o.snapshot()
	if !changed {
		return nil
	}
	data, err := json.Marshal(file)
	if err == nil {
		err = files.Replace(o.path, append(data, '\n'))
	}
	if err != nil {
		o.mu.Lock()
		o.changed = true
		o.mu.Unlock()
	}
	return err
}

// snapshot returns the content of the file, and whether it differs from the last one.
func (o *Owners) snapshot() (*ownersFile, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.changed {
		return nil, false
	}
	o.changed = false
	file := &ownersFile{Version: ownersVersion, Items: o.bornItems, Templates: o.bornTemplates, Upstreams: make(map[string]ownersFileUpstream, len(o.digests))}
	for upstream, digest := range o.digests {
		file.Upstreams[upstream] = ownersFileUpstream{Digest: digest, Owned: map[string][]string{}}
	}
	for k, w := range o.owned {
		if w.foreign {
			continue
		}
		of := file.Upstreams[w.upstream].Owned
		of[k.kind.String()] = append(of[k.kind.String()], k.key)
	}
	return file, true
}

// noteBorn records which content of the store the owners were read from.
func (o *Owners) noteBorn() {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	if o.shared == nil {
		return
	}
	items, templates := born(o.shared[0].version), born(o.shared[1].version)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed = o.changed || items != o.bornItems || templates != o.bornTemplates
	o.bornItems, o.bornTemplates = items, templates
}
