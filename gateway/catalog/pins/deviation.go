package pins

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Limits of what is stored for one upstream.
const (
	maxCallers       = 4096    // callers whose lists differ from the approved definitions
	maxDeviations    = 100_000 // in the lists of all these callers
	maxLoggedChanges = 20_000  // changes that were logged
	maxLogged        = 100     // changes of one list that are logged individually
)

// guarded is one upstream with pin_tools or pin_skills, whose values are tools and skills.
type guarded struct {
	name          string
	tools, skills string
	perCaller     bool
	lists         *catalog.Feed
	reading       chan struct{} // contains a value while the lists are read for a call

	mu sync.Mutex
	// own are the definitions last listed to the gateway, nil before the first time.
	own map[Subject]Digest
	// callers contains, for each caller, the listed definitions that differ from the approved ones or for which own
	// has another definition; for an upstream that accepts only the tokens of callers there is an entry for each
	// caller.
	callers    map[[sha256.Size]byte]*list.Element
	order      *list.List // least recently used first
	deviations int
	logged     map[Subject]Digest
	files      map[string]bool // addresses of files of skills that were logged
	passed     uint64
	refused    uint64
}

// deviating is the definitions listed to one caller that are not the approved ones.
type deviating struct {
	key  [sha256.Size]byte
	at   time.Time // when all lists of the caller were read; zero when not all were
	seen map[Subject]Digest
}

func newGuarded(c *upstream.Config, lists *catalog.Feed) *guarded {
	u := &guarded{
		name: c.Name, tools: c.PinTools, skills: c.PinSkills, perCaller: c.PerCaller(),
		lists: lists, reading: make(chan struct{}, 1),
		callers: map[[sha256.Size]byte]*list.Element{}, order: list.New(), logged: map[Subject]Digest{}, files: map[string]bool{},
	}
	return u
}

// mode returns the value of the setting for a kind.
func (u *guarded) mode(of Kind) string {
	if of == Skill {
		return u.skills
	}
	return u.tools
}

// pins reports whether a kind is compared with what was approved, and blocks whether it is also withheld.
func (u *guarded) pins(of Kind) bool   { return upstream.Pins(u.mode(of)) }
func (u *guarded) blocks(of Kind) bool { return u.mode(of) == upstream.PinBlock }

// kinds are the kinds of lists that are compared.
func (u *guarded) kinds() (kinds []mcp.ListKind) {
	for _, kind := range mcp.ListKinds {
		if of, ok := kindOf(kind); ok && u.pins(of) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// kindOf returns the kind of pins for a kind of list; ok is false for resources.
func kindOf(kind mcp.ListKind) (Kind, bool) {
	switch kind {
	case mcp.Tool:
		return Tool, true
	case mcp.Prompt:
		return Prompt, true
	case mcp.Skill:
		return Skill, true
	}
	return "", false
}

// ErrNoName is the error of a definition without a name.
var ErrNoName = errors.New("the definition has no name")

// DefineListed returns the pin of an item in the form in which an upstream lists it.
func DefineListed(name string, kind Kind, raw []byte) (Pin, error) {
	if kind == Skill {
		s, err := readSkill(raw)
		if err != nil {
			return Pin{}, err
		}
		return Pin{Subject{name, Skill, s.URI}, s.definition()}, nil
	}
	text, ok := mcp.StringValue(mcp.Find(raw, mcp.Span{End: len(raw)}, "name").Of(raw))
	if !ok {
		return Pin{}, ErrNoName
	}
	d, err := Define(raw)
	return Pin{Subject: Subject{Upstream: name, Kind: kind, Name: strings.Clone(text)}, Definition: d}, err
}

// Of returns the pins of everything in an upstream's offer that can be pinned, in the order of the offer. Items
// without a name, and invalid entries of skills, are omitted.
func Of(name string, o *catalog.Offer) (all []Pin) {
	for i := range o.Lists {
		kind, ok := kindOf(o.Lists[i].Kind)
		if !ok {
			continue
		}
		for _, raw := range o.Lists[i].Items {
			if pin, err := DefineListed(name, kind, raw); err == nil {
				all = append(all, pin)
			}
		}
	}
	if o.Instructions != "" {
		all = append(all, instructionsPin(name, o.Instructions))
	}
	return all
}

func instructionsPin(name, text string) Pin {
	return Pin{Subject: Subject{Upstream: name, Kind: Instructions}, Definition: defineInstructions(text)}
}

// digests maps subjects to their digests. A subject that is listed twice with different definitions gets a digest
// that matches no definition.
func digests(all []Pin) map[Subject]Digest {
	out := make(map[Subject]Digest, len(all))
	for i := range all {
		s, d := all[i].Subject, all[i].Definition.Digest
		if before, twice := out[s]; twice && before != d {
			d = Digest{}
		}
		out[s] = d
	}
	return out
}

// note records what was listed. whole is set when the items are all lists, not one page.
func (u *guarded) note(c *upstream.Caller, seen map[Subject]Digest, whole bool, p *Pins, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c == nil {
		u.own = seen
		u.forgetApproved(p)
		return
	}
	key := keyOf(c)
	d := &deviating{key: key, seen: map[Subject]Digest{}}
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
		if own, ok := u.own[s]; p.Status(s, digest) == Approved && (!ok || own == digest) {
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

// forgetApproved removes the approved definitions from the lists of callers: what was listed to the gateway since
// then counts. The caller holds the lock.
func (u *guarded) forgetApproved(p *Pins) {
	if u.perCaller {
		return
	}
	for at := u.order.Front(); at != nil; {
		next := at.Next()
		d := at.Value.(*deviating)
		for s, digest := range d.seen {
			if p.Status(s, digest) == Approved {
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
func keyOf(c *upstream.Caller) [sha256.Size]byte {
	key, _ := c.CacheKey() // the stored lists can only withhold definitions, so callers without a cache key may be identified by address
	return key
}

// shown returns the digest last listed to a caller for a subject, if known.
func (u *guarded) shown(c *upstream.Caller, s Subject) (d Digest, ok bool) {
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

// known reports whether the lists of a caller were read, and recently enough.
func (u *guarded) known(c *upstream.Caller, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.perCaller {
		return u.own != nil
	}
	at := u.callers[keyOf(c)]
	return at != nil && now.Sub(at.Value.(*deviating).at) < maxAge
}

// firstFile reports whether a deviation of a file of a skill was not logged before.
func (u *guarded) firstFile(uri string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.files[uri] || len(u.files) >= maxLoggedChanges { // addresses come from clients too
		return false
	}
	u.files[uri] = true
	return true
}

// forgetLoggedFiles makes deviations of files be logged again.
func (u *guarded) forgetLoggedFiles() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.files)
}

// count counts a call or an answer that is not approved: refused, or passed on.
func (u *guarded) count(refused bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if refused {
		u.refused++
	} else {
		u.passed++
	}
}

// unapproved returns the definitions of a list that are not approved and were not logged before.
func (u *guarded) unapproved(seen map[Subject]Digest, p *Pins) (news []Subject) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, d := range seen {
		if p.Status(s, d) == Approved {
			delete(u.logged, s)
			continue
		}
		if before, ok := u.logged[s]; ok && before == d {
			continue
		}
		if len(u.logged) >= maxLoggedChanges { // names come from the upstream, so bound the map
			clear(u.logged)
		}
		u.logged[s] = d
		news = append(news, s)
	}
	return news
}
