package flow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// maxID bounds the text that identifies a caller, in bytes.
const maxID = 256

// The ids of callers: that of a principal is its key, which begins with a digit.
const (
	sessionMark = "s" // then the digest of the session
	addressMark = "@" // then the address, or the network
	digestMark  = "#" // then the digest of a key that is long, or not text
	lostCaller  = "*"
	lostAddress = "@*"
)

// label is when a label was set last: as the process knows it, and as the file and the store have it.
// Times are milliseconds of the clock; 0 is never.
type label struct {
	at, saved, shared atomic.Int64
	cleared           atomic.Int64 // when it was cleared in the store, of what is done here
}

// held are the labels of a caller, by bit.
type held struct {
	id     string
	many   bool // it stands for several callers
	labels []label
	dirty  atomic.Bool
}

func newHeld(id string, names int) *held {
	return &held{id: id, labels: make([]label, names), many: id == lostCaller || strings.HasPrefix(id, addressMark) && (id == lostAddress || strings.HasSuffix(id, "/48"))}
}

// now returns the labels that have not ended.
func (h *held) now(now, window int64) (l Labels) {
	for i := range h.labels {
		if at := h.labels[i].at.Load(); at != 0 && now-at < window {
			l |= 1 << i
		}
	}
	return l
}

// raise begins the windows of labels anew.
func (h *held) raise(l Labels, now int64) {
	for i := range h.labels {
		if l>>i&1 != 0 {
			raise(&h.labels[i].at, now)
		}
	}
}

func raise(to *atomic.Int64, now int64) {
	for was := to.Load(); was < now && !to.CompareAndSwap(was, now); was = to.Load() {
	}
}

// drop ends some labels that were set before a time.
func (h *held) drop(of Labels, before int64) {
	for i := range h.labels {
		l := &h.labels[i]
		if at := l.at.Load(); of>>i&1 != 0 && at < before && l.at.CompareAndSwap(at, 0) {
			l.saved.Store(0)
			l.shared.Store(0)
		}
	}
}

// forget does once what the store has of the clearing of a label: it ends if it was set before.
func (h *held) forget(l Labels, cleared, before int64) {
	for i := range h.labels {
		if l>>i&1 != 0 && cleared > h.labels[i].cleared.Load() {
			raise(&h.labels[i].cleared, cleared)
			h.drop(l, before)
		}
	}
}

// rename moves the labels from the bits of some names to those of others.
func (h *held) rename(from, to *Names) {
	old := h.labels
	h.labels = make([]label, len(to.List()))
	for i, name := range to.List() {
		if j, ok := slices.BinarySearch(from.List(), name); ok && j < len(old) {
			h.labels[i].at.Store(old[j].at.Load())
			h.labels[i].saved.Store(old[j].saved.Load())
			h.labels[i].shared.Store(old[j].shared.Load())
			h.labels[i].cleared.Store(old[j].cleared.Load())
		}
	}
}

// translate returns a set in the bits of other names. Labels without such a name are left out.
func translate(l Labels, from, to *Names) Labels {
	if from == to || l == 0 {
		return l
	}
	for i, name := range from.List() {
		if l>>i&1 != 0 && (i >= len(to.List()) || to.list[i] != name) {
			return to.Of(from.In(l)...)
		}
	}
	return l
}

// places are callers of one kind.
type places struct {
	at  map[string]*held
	max int
	// lost has the labels of callers for whom there was no place. Whoever has no place has them, too.
	lost    *held
	refused uint64
	swept   int64 // when callers whose labels have ended were removed last
	tried   int64 // when room was looked for last
}

func newPlaces(max int, lost string) places {
	return places{at: map[string]*held{}, max: max, lost: newHeld(lost, MaxNames)}
}

// find returns the labels of a caller, nil for one without a place of its own. It allocates nothing.
func (m *Memory) find(c *Caller) (*places, *held) {
	if !c.Session && !c.Address.IsValid() && isPlain(c.Key) {
		p := &m.places[0]
		return p, p.at[c.Key]
	}
	var buf [maxID + 1]byte
	id := c.appendID(buf[:0])
	p := m.placesOf(string(id))
	h := p.at[string(id)]
	if h == nil && c.Address.IsValid() && !c.Session {
		h = p.at[string(appendNetwork(buf[:0], c.Address, 48))]
	}
	return p, h
}

// byID returns the place with an id, nil for none.
func (m *Memory) byID(id string) *held {
	p := m.placesOf(id)
	if id == p.lost.id {
		return p.lost
	}
	return p.at[id]
}

// placesOf returns where a caller with an id belongs.
func (m *Memory) placesOf(id string) *places {
	if strings.HasPrefix(id, addressMark) {
		return &m.places[1]
	}
	return &m.places[0]
}

// appendID appends the id of a caller, at most maxID bytes of UTF-8.
func (c *Caller) appendID(dst []byte) []byte {
	switch {
	case c.Session:
		return appendDigest(append(dst, sessionMark...), c.Key)
	case c.Address.IsValid():
		return appendNetwork(dst, c.Address, 64)
	case isPlain(c.Key):
		return append(dst, c.Key...)
	}
	return appendDigest(append(dst, digestMark...), c.Key)
}

// isPlain reports whether the key of a principal is its id.
func isPlain(key string) bool {
	return key != "" && key[0]-'0' < 10 && len(key) <= maxID && utf8.ValidString(key)
}

func appendDigest(dst []byte, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return hex.AppendEncode(dst, sum[:])
}

// appendNetwork appends the id of an address, or for IPv6 of a network with it.
func appendNetwork(dst []byte, a netip.Addr, bits int) []byte {
	a = a.Unmap().WithZone("")
	dst = append(dst, addressMark...)
	if a.Is4() {
		return a.AppendTo(dst)
	}
	return netip.PrefixFrom(a, bits).Masked().AppendTo(dst)
}

// ensure returns the place of a caller, or that of all callers without one. It needs mu.
func (m *Memory) ensure(c *Caller, now int64) *held {
	if _, h := m.find(c); h != nil {
		return h
	}
	h := m.ensureID(string(c.appendID(nil)), now)
	if h.many { // there was no room, or its network has become one caller
		if _, own := m.find(c); own != nil {
			return own
		}
	}
	return h
}

// ensureID returns the place with an id, or that of all callers without one. It needs mu.
func (m *Memory) ensureID(id string, now int64) *held {
	if h := m.byID(id); h != nil {
		return h
	}
	p := m.placesOf(id)
	if len(p.at) >= p.max && !p.room(now, m.window.Load(), len(m.names.List())) {
		p.refused++
		if n, due := m.refused.Due(m.options.Now(), time.Minute); due {
			m.options.Log.Warn("labels of callers: there is no room for more callers; whoever is not among those remembered counts as having every label until labels end", "callers", len(p.at), "times", n,
				"fix", "a shorter data_flow.window, or keys in place of callers without them")
		}
		return p.lost
	}
	h := newHeld(id, len(m.names.List()))
	p.at[id] = h
	return h
}

// room makes room, and reports whether there is some. It looks once a second.
func (p *places) room(now, window int64, names int) bool {
	if now-p.tried < 1000 {
		return false
	}
	p.tried = now
	p.sweep(now, window)
	if len(p.at) >= p.max {
		p.collapse(names)
	}
	return len(p.at) < p.max
}

// sweep removes callers whose labels have ended.
func (p *places) sweep(now, window int64) {
	for id, h := range p.at {
		if h.now(now, window) == 0 {
			delete(p.at, id)
		}
	}
	p.swept = now
}

// collapse makes one caller of each of the networks (/48) with the most callers, until a sixteenth of the
// places is free. Their labels are those of the network then.
func (p *places) collapse(names int) {
	networks := map[string][]*held{}
	for id, h := range p.at {
		if prefix, err := netip.ParsePrefix(strings.TrimPrefix(id, addressMark)); err == nil && prefix.Bits() == 64 {
			network := string(appendNetwork(nil, prefix.Addr(), 48))
			networks[network] = append(networks[network], h)
		}
	}
	largest := slices.SortedFunc(maps.Keys(networks), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(networks[b]), len(networks[a])), cmp.Compare(a, b))
	})
	for _, network := range largest {
		if len(p.at) <= p.max-p.max/16 || len(networks[network]) < 2 {
			return
		}
		all := newHeld(network, names)
		if was := p.at[network]; was != nil {
			all = was
		}
		p.at[network] = all
		for _, h := range networks[network] {
			delete(p.at, h.id)
			for i := range h.labels {
				raise(&all.labels[i].at, h.labels[i].at.Load())
			}
		}
	}
}
