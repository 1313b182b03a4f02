package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"svc/gateway/statefile"
)

// Bounds on what is kept about owners.
const (
	// maxOwned bounds the names of one upstream that are kept; the ones that it
	// has not listed for the longest time are released first. Only the upstream
	// itself can bring its names that far.
	maxOwned      = 4 * MaxItems
	maxOwnersFile = 256 << 20
	ownersVersion = 1
)

// Identity is what makes an upstream the same upstream as before. Its owned names
// are released when any part changes.
type Identity struct {
	Upstream string
	// Digest covers the settings that decide what the upstream is and how its
	// items are named: url or command, prefix and tools.
	Digest string
}

// Owners remembers which upstream owns a name, uri or template. The owner keeps
// it while it is down or does not list it, so that no other upstream takes it
// over. It is safe for concurrent use.
type Owners struct {
	path   string
	saving sync.Mutex // one at a time; taken before mu

	sharing   sync.Mutex // taken before mu; one conversation with the store at a time
	shared    []*sharedMap
	holders   []string // of this replica's upstreams
	sharedErr error

	mu      sync.Mutex
	turn    uint64 // counts the lists that were merged
	owned   map[ownerKey]*owned
	count   map[string]int // by upstream
	heads   *heads         // of all templates; nil when one has changed
	digests map[string]string
	changed bool
	// bornItems and bornTemplates name the content of the store that the owners in the
	// file are of; empty for owners that are not shared.
	bornItems, bornTemplates string
	forgotten                []claimed // and not yet given up at the store
}

type ownerKey struct {
	kind Kind
	key  string
}

type owned struct {
	upstream string
	turn     uint64 // of the last list that had it
	pending  bool   // shared owners: not claimed at the store yet
	foreign  bool   // shared owners: of an upstream of that name with other settings
}

// ownersFile is the form on disk.
type ownersFile struct {
	Version   int                           `json:"version"`
	Upstreams map[string]ownersFileUpstream `json:"upstreams"`
	// Items and Templates name the content of the shared store; empty without one.
	Items     string `json:"items,omitempty"`
	Templates string `json:"templates,omitempty"`
}

type ownersFileUpstream struct {
	Digest string              `json:"digest"`
	Owned  map[string][]string `json:"owned"` // by kind
}

// OpenOwners reads the owners from a file; an empty path keeps them in memory.
// What belonged to upstreams that are not in identities, or that have changed, is
// released. A file that cannot be read is an error, and the owners are empty:
// whoever goes on without it lets the next lists decide again.
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
			kind, ok := parseKind(name)
			if !ok {
				continue // of a later release
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

// ReadOwned returns the keys of every kind that an upstream owns according to a file of
// owners; none where there is no file.
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

// readOwners reads a file of owners; nil where there is none.
func readOwners(path string) (*ownersFile, error) {
	data, err := statefile.Read(path, maxOwnersFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file ownersFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.Version != ownersVersion {
		return nil, fmt.Errorf("%s has version %d, want %d", path, file.Version, ownersVersion)
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

// noteChange notes that a key of a kind has another owner. The caller holds mu.
func (o *Owners) noteChange(kind Kind) {
	o.changed = true
	if kind == Template {
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
func (o *Owners) Of(kind Kind, key string) (upstream string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.owned[ownerKey{kind, key}]; w != nil {
		return w.upstream, true
	}
	return "", false
}

// Owner returns the upstream that is asked for a name or uri, listed now or not: by the
// prefix of its name, by the owners, by the head of a template.
func (n *Names) Owner(owners *Owners, kind Kind, visible string) (upstream string, ok bool) {
	if kindFacts[kind].named {
		if upstream, ok := n.ByPrefix(visible); ok {
			return upstream, true
		}
	}
	if upstream, ok := owners.Of(kind, visible); ok {
		return upstream, true
	}
	if kind == Resource {
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

// next begins a merge of lists.
func (o *Owners) next() {
	o.mu.Lock()
	o.turn++
	o.mu.Unlock()
}

// claim makes upstream the owner of a key that has none, and returns the owner.
func (o *Owners) claim(kind Kind, key, upstream string) (owner string) {
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
		w.pending = o.shared != nil // the store did not answer
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
		if k.kind == Template {
			out[k.key] = w.upstream
		}
	}
	return out
}

// forgetOldest releases what the upstream has not listed for the longest time, a
// quarter at once. The caller holds mu.
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

// Release frees the keys of one upstream that are seen as key, of every kind, and
// returns how many there were. The next list that has the key claims it. The error is that
// of the store of shared owners: nothing was released then.
func (o *Owners) Release(upstream, key string) (n int, err error) {
	o.sharing.Lock()
	defer o.sharing.Unlock()
	var all []claimed
	for _, kind := range Kinds {
		all = append(all, claimed{ownerKey{kind, key}, upstream})
	}
	if err := o.drop(all); err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, kind := range Kinds {
		k := ownerKey{kind, key}
		if w := o.owned[k]; w != nil && w.upstream == upstream {
			o.forget(k)
			n++
		}
	}
	return n, nil
}

// Save writes the owners to their file when something has changed.
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
		err = statefile.Replace(o.path, append(data, '\n'))
	}
	if err != nil {
		o.mu.Lock()
		o.changed = true
		o.mu.Unlock()
	}
	return err
}

// snapshot returns the content of the file, and whether it differs from the last
// one.
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

// noteBorn takes over which content of the store the owners are of.
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
