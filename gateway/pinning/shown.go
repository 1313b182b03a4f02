package pinning

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/lister"
	"svc/gateway/mcp"
	"svc/gateway/pins"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Bounds on what is remembered of one upstream.
const (
	maxCallers    = 4096    // whose lists differ from what was approved
	maxDeviations = 100_000 // in the lists of all of them
	maxTold       = 20_000  // changes that were logged
	maxLogged     = 100     // changes of one list that are logged one by one
)

// guarded is one upstream with pin_tools.
type guarded struct {
	name      string
	block     bool
	perCaller bool
	reader    lister.Lister // without a caller; copied for each reading
	reading   chan struct{} // holds a value while nobody reads on demand
	again     chan struct{} // holds a value when the lists are wanted before their time

	mu sync.Mutex
	// own are the definitions that the gateway was listed last, nil before the first time.
	own map[pins.Subject]pins.Digest
	// callers are the definitions that callers were listed, as far as they are not the
	// approved ones, or are while own has another; of an upstream that takes the tokens of callers alone there is an
	// entry for each caller.
	callers    map[[sha256.Size]byte]*list.Element
	order      *list.List // the least recently used first
	deviations int
	told       map[pins.Subject]pins.Digest
	passed     uint64
	refused    uint64
}

// deviating is what one caller was listed that is not what was approved.
type deviating struct {
	key  [sha256.Size]byte
	at   time.Time // when all lists of the caller were read; zero when they were not
	seen map[pins.Subject]pins.Digest
}

func newGuarded(c *upstream.Config, t *transport.Upstream, version string) *guarded {
	u := &guarded{
		name: c.Name, block: c.PinTools == upstream.PinBlock, perCaller: c.PerCaller(),
		reader:  lister.Lister{Agent: agent, Version: version, Bounds: lister.Bounds{Time: readTime}},
		reading: make(chan struct{}, 1), again: make(chan struct{}, 1),
		callers: map[[sha256.Size]byte]*list.Element{}, order: list.New(), told: map[pins.Subject]pins.Digest{},
	}
	if t != nil {
		u.reader.Transport = t.Direct
	}
	u.reading <- struct{}{}
	return u
}

// kindOf returns the kind that is pinned of a kind of list; ok is false for resources.
func kindOf(kind catalog.Kind) (pins.Kind, bool) {
	switch kind {
	case catalog.Tool:
		return pins.Tool, true
	case catalog.Prompt:
		return pins.Prompt, true
	}
	return "", false
}

// ErrNoName is the error of a definition without a name.
var ErrNoName = errors.New("the definition has no name")

// Define returns the pin of an item as an upstream lists it.
func Define(name string, kind pins.Kind, raw []byte) (pins.Pin, error) {
	text, ok := mcp.StringValue(mcp.Find(raw, mcp.Span{End: len(raw)}, "name").Of(raw))
	if !ok {
		return pins.Pin{}, ErrNoName
	}
	d, err := pins.Define(raw)
	return pins.Pin{Subject: pins.Subject{Upstream: name, Kind: kind, Name: strings.Clone(text)}, Definition: d}, err
}

// Of returns the pins of all that an upstream offers and that can be pinned, in its order.
// Items without a name are left out.
func Of(name string, o *lister.Offer) (all []pins.Pin) {
	for i := range o.Lists {
		kind, ok := kindOf(o.Lists[i].Kind)
		if !ok {
			continue
		}
		for _, raw := range o.Lists[i].Items {
			if pin, err := Define(name, kind, raw); err == nil {
				all = append(all, pin)
			}
		}
	}
	if o.Instructions != "" {
		all = append(all, instructionsPin(name, o.Instructions))
	}
	return all
}

func instructionsPin(name, text string) pins.Pin {
	return pins.Pin{Subject: pins.Subject{Upstream: name, Kind: pins.Instructions}, Definition: pins.DefineInstructions(text)}
}

// digests maps subjects to what they are. One that is listed twice with two definitions
// has a digest that nothing has.
func digests(all []pins.Pin) map[pins.Subject]pins.Digest {
	out := make(map[pins.Subject]pins.Digest, len(all))
	for i := range all {
		s, d := all[i].Subject, all[i].Definition.Digest
		if before, twice := out[s]; twice && before != d {
			d = pins.Digest{}
		}
		out[s] = d
	}
	return out
}

// note takes over what was listed. whole is set when these are all lists, not one page.
func (u *guarded) note(c *transport.Caller, seen map[pins.Subject]pins.Digest, whole bool, p *pins.Pins, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c == nil {
		u.own = seen
		u.forgetApproved(p)
		return
	}
	key := keyOf(c)
	d := &deviating{key: key, seen: map[pins.Subject]pins.Digest{}}
	if at := u.callers[key]; at != nil {
		if old := at.Value.(*deviating); !whole {
			d = old
			u.deviations -= len(old.seen)
		} else {
			u.deviations -= len(old.seen)
		}
		u.order.Remove(at)
		delete(u.callers, key)
	}
	if whole {
		d.at = now
	}
	for s, digest := range seen {
		if own, ok := u.own[s]; p.Status(s, digest) == pins.Approved && (!ok || own == digest) {
			delete(d.seen, s)
		} else {
			d.seen[s] = digest
		}
	}
	if len(d.seen) == 0 && !u.perCaller {
		return
	}
	u.callers[key] = u.order.PushBack(d)
	u.deviations += len(d.seen)
	for at := u.order.Front(); at != nil && at != u.order.Back() && (u.order.Len() > maxCallers || u.deviations > maxDeviations); at = u.order.Front() {
		old := at.Value.(*deviating)
		u.deviations -= len(old.seen)
		u.order.Remove(at)
		delete(u.callers, old.key)
	}
}

// forgetApproved forgets what callers were listed and is approved: what the gateway was
// listed since then counts. The lock is held.
func (u *guarded) forgetApproved(p *pins.Pins) {
	if u.perCaller {
		return
	}
	for at := u.order.Front(); at != nil; {
		next := at.Next()
		d := at.Value.(*deviating)
		for s, digest := range d.seen {
			if p.Status(s, digest) == pins.Approved {
				delete(d.seen, s)
				u.deviations--
			}
		}
		if len(d.seen) == 0 {
			u.order.Remove(at)
			delete(u.callers, d.key)
		}
		at = next
	}
}

// keyOf is the key of a caller with its credentials.
func keyOf(c *transport.Caller) [sha256.Size]byte {
	key, _ := c.CacheKey() // what is kept only takes away, so that it may be kept of addresses too
	return key
}

// shown returns what a caller was listed last of a subject, as far as it is known.
func (u *guarded) shown(c *transport.Caller, s pins.Subject) (d pins.Digest, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.callers[keyOf(c)]; at != nil {
		u.order.MoveToBack(at)
		if d, ok = at.Value.(*deviating).seen[s]; ok {
			return d, true
		}
	}
	d, ok = u.own[s]
	return d, ok
}

// known reports whether what a caller is listed was read, and not too long ago.
func (u *guarded) known(c *transport.Caller, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.perCaller {
		return u.own != nil
	}
	at := u.callers[keyOf(c)]
	return at != nil && now.Sub(at.Value.(*deviating).at) < maxAge
}

// unapproved returns what of a list is not approved, and was not logged before.
func (u *guarded) unapproved(seen map[pins.Subject]pins.Digest, p *pins.Pins) (news []pins.Subject) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, d := range seen {
		if p.Status(s, d) == pins.Approved {
			delete(u.told, s)
			continue
		}
		if before, ok := u.told[s]; ok && before == d {
			continue
		}
		if len(u.told) >= maxTold { // names come from outside
			clear(u.told)
		}
		u.told[s] = d
		news = append(news, s)
	}
	return news
}
