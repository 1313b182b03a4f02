package catalog

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/redis"
)

// Limits of the stored entries.
const (
	MaxCallers = 4096
	MaxURIs    = 16_384  // of one caller
	maxAll     = 262_144 // of all callers
	MaxResult  = 256     // URIs taken from one result
	TTL        = 24 * time.Hour

	maxURI = 4096 // in bytes
)

// Digest is the digest of a caller or of a URI.
type Digest [16]byte

func (d Digest) text() string { return base64.RawURLEncoding.EncodeToString(d[:]) }

func digest(text []byte) (d Digest) {
	sum := sha256.Sum256(text)
	copy(d[:], sum[:])
	return d
}

// Provenance is the entries of one gateway. A URI belongs to the upstream that returned it
// first, as long as the entry exists: another upstream cannot take it over by returning it
// too. It is safe for concurrent use.
type Provenance struct {
	now   func() time.Time
	store *redis.Redis

	mu      sync.Mutex
	callers map[Digest]*list.Element
	order   *list.List // of *caller, most recently used first
	all     int
}

type caller struct {
	key   Digest
	uris  map[Digest]*list.Element
	order *list.List // of *sighting, most recently seen first
}

type sighting struct {
	uri      Digest
	upstream string
	expires  time.Time
}

// NewProvenance returns an empty memory. store is the store that replicas share; nil for none.
func NewProvenance(now func() time.Time, store *redis.Redis) *Provenance {
	return &Provenance{now: now, store: store, callers: map[Digest]*list.Element{}, order: list.New()}
}

// Learn stores that an upstream has returned URIs to a caller.
func (m *Provenance) Learn(ctx context.Context, who *auth.Principal, upstream string, uris []string) {
	if len(uris) == 0 {
		return
	}
	key := digest(who.AppendKey(nil))
	keys := make([]Digest, len(uris))
	for i, uri := range uris {
		keys[i] = digest([]byte(uri))
	}
	m.learn(key, upstream, keys)
	if m.store != nil {
		names := make([]string, len(keys))
		for i := range keys {
			names[i] = keys[i].text()
		}
		_ = m.store.PutSeen(ctx, key.text(), names, upstream, TTL, MaxURIs) // the store logs its failures
	}
}

func (m *Provenance) learn(key Digest, upstream string, uris []Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	at := m.callers[key]
	if at == nil {
		if m.order.Len() >= MaxCallers {
			m.dropCaller(m.order.Back())
		}
		at = m.order.PushFront(&caller{key: key, uris: map[Digest]*list.Element{}, order: list.New()})
		m.callers[key] = at
	}
	m.order.MoveToFront(at)
	c := at.Value.(*caller)
	for _, uri := range uris {
		m.see(c, &sighting{uri: uri, upstream: upstream, expires: now.Add(TTL)}, now)
	}
	for m.all > maxAll && m.order.Len() > 1 {
		m.dropCaller(m.order.Back())
	}
}

// see stores one URI. The caller holds mu.
func (m *Provenance) see(c *caller, s *sighting, now time.Time) {
	if at := c.uris[s.uri]; at != nil {
		old := at.Value.(*sighting)
		if old.upstream == s.upstream || !now.Before(old.expires) {
			*old = *s
			c.order.MoveToFront(at)
		}
		return
	}
	if c.order.Len() >= MaxURIs {
		oldest := c.order.Back()
		delete(c.uris, oldest.Value.(*sighting).uri)
		c.order.Remove(oldest)
		m.all--
	}
	c.uris[s.uri] = c.order.PushFront(s)
	m.all++
}

func (m *Provenance) dropCaller(at *list.Element) {
	c := at.Value.(*caller)
	m.all -= c.order.Len()
	delete(m.callers, c.key)
	m.order.Remove(at)
}

// Upstream returns the upstream that returned a URI to a caller; ok is false if none did
// within TTL.
func (m *Provenance) Upstream(ctx context.Context, who *auth.Principal, uri string) (upstream string, ok bool) {
	key, name := digest(who.AppendKey(nil)), digest([]byte(uri))
	if upstream, ok = m.upstream(key, name); ok || m.store == nil {
		return upstream, ok
	}
	upstream, ok, err := m.store.Seen(ctx, key.text(), name.text(), TTL)
	return upstream, ok && err == nil
}

func (m *Provenance) upstream(key, uri Digest) (upstream string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.callers[key]
	if at == nil {
		return "", false
	}
	m.order.MoveToFront(at)
	s, ok := at.Value.(*caller).uris[uri]
	if !ok || !m.now().Before(s.Value.(*sighting).expires) {
		return "", false
	}
	return s.Value.(*sighting).upstream, true
}

// URIs returns the URIs of the resources in a result: links and embedded resources in the
// content of a tool's result and in the messages of a prompt, and the contents of a
// resource; at most MaxResult.
func URIs(m *mcp.Message) []string {
	if m.Kind != mcp.Response || !m.Spans.Result.Present() || !bytes.Contains(m.Spans.Result.Of(m.Body), []byte(`"uri"`)) {
		return nil
	}
	f := finder{body: m.Body}
	f.result(m.Spans.Result, true)
	return f.uris
}

// finder collects the URIs in a body.
type finder struct {
	body []byte
	uris []string
}

// result collects the URIs of a result; outcome is set if the result may be that of a task,
// with the result of the call inside.
func (f *finder) result(at mcp.Span, outcome bool) {
	for members := mcp.Members(f.body, at); members.Next(); {
		switch string(members.Name()) {
		case "content":
			f.blocks(members.Value())
		case "contents":
			for each := mcp.Elements(f.body, members.Value()); each.Next(); {
				f.uri(each.Value())
			}
		case "messages":
			for each := mcp.Elements(f.body, members.Value()); each.Next(); {
				f.blocks(mcp.Find(f.body, each.Value(), "content"))
			}
		case "result":
			if outcome {
				f.result(members.Value(), false)
			}
		}
	}
}

// blocks collects the URIs of one content block or of several.
func (f *finder) blocks(at mcp.Span) {
	text := at.Of(f.body)
	switch {
	case len(text) == 0:
	case text[0] == '[':
		for each := mcp.Elements(f.body, at); each.Next(); {
			f.block(each.Value())
		}
	default:
		f.block(at)
	}
}

func (f *finder) block(at mcp.Span) {
	f.uri(at)
	if embedded := mcp.Find(f.body, at, "resource"); embedded.Present() {
		f.uri(embedded)
	}
}

func (f *finder) uri(at mcp.Span) {
	uri, ok := mcp.StringValue(mcp.Find(f.body, at, "uri").Of(f.body))
	if ok && uri != "" && len(uri) <= maxURI && len(f.uris) < MaxResult {
		f.uris = append(f.uris, strings.Clone(uri)) // the body is modified in place
	}
}
