package stdio

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// maxSessions bounds the sessions of an upstream. Beyond, the one that was not used for
// the longest time is forgotten: whoever uses it begins a new one.
const maxSessions = 4096

// session is a session at the upstream.
type session struct {
	id string
	// slot is its own; nil where it uses the process of others: see Transport.shared.
	slot *slot
	// params are those of the initialize that processes are sent for it.
	params   []byte
	standing standing
	uris     subscriptions // where several sessions use a process

	initialized atomic.Bool            // the client has sent notifications/initialized
	level       atomic.Pointer[[]byte] // params of the last logging/setLevel
	uses        *slot                  // the last one that is not its own; guarded by the lock of the transport
	at          *list.Element
}

// sessions are the sessions that are remembered. The lock of the transport guards them.
type sessions struct {
	byID  map[string]*session
	order *list.List // the one used last in front
}

func newSessions() sessions { return sessions{byID: map[string]*session{}, order: list.New()} }

// get returns a session; nil where there is none.
func (s *sessions) get(id string) *session {
	found := s.byID[id]
	if found != nil {
		s.order.MoveToFront(found.at)
	}
	return found
}

func (s *sessions) add(one *session) {
	one.at = s.order.PushFront(one)
	s.byID[one.id] = one
}

func (s *sessions) remove(one *session) {
	s.order.Remove(one.at)
	delete(s.byID, one.id)
}

// oldest returns the session that was not used for the longest time, where there are
// too many.
func (s *sessions) oldest() *session {
	if s.order.Len() <= maxSessions {
		return nil
	}
	return s.order.Back().Value.(*session)
}

// initialize opens a session: its process is started, and its answer is the process's.
func (t *Transport) initialize(ctx context.Context, r *transport.Request, m *mcp.Message) (*upstream.Response, error) {
	s := &session{id: newID(), standing: standing{room: &t.room}}
	params := slices.Clone(m.Spans.Params.Of(m.Body))
	if params == nil {
		params = []byte("{}")
	}
	sl := t.slotOfSession(s, r.Caller, params, m.InitializeVersion)
	p, err := t.acquire(ctx, sl)
	var rejected *rejectedError
	if errors.As(err, &rejected) {
		return message(withID(rejected.body, m.ID), ""), nil
	}
	if err != nil {
		t.giveUp(sl)
		return nil, err
	}
	body := withID(p.opened, m.ID)
	t.mu.Lock()
	t.sessions.add(s)
	if old := t.sessions.oldest(); old != nil {
		t.forget(old, "there are too many sessions")
	}
	t.mu.Unlock()
	if sl.users != nil {
		t.join(s, sl)
	}
	t.release(p)
	return message(body, s.id), nil
}

// giveUp ends the process of a session whose client did not wait for it, also one that is
// being started.
func (t *Transport) giveUp(sl *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sl.session == nil {
		return
	}
	sl.unwanted = true
	if sl.starting != nil {
		sl.starting.cancel()
	}
	if sl.proc != nil {
		t.retire(sl.proc, "its client has left")
	}
}

// withID returns an answer with the id of the request that it is given to.
func withID(answer, id []byte) []byte {
	var m mcp.Message
	_ = mcp.Scan(answer, &m) // it was scanned before
	return mcp.Splice(nil, answer, mcp.Edit{At: m.Spans.ID, With: id})
}

// slotOfSession returns the slot of a session that begins, by the sharing of the
// upstream.
func (t *Transport) slotOfSession(s *session, c *transport.Caller, params []byte, revision string) *slot {
	switch t.sharingFor(c) {
	case upstream.SharingSession:
		s.params = params
		s.slot = &slot{owner: ownerOf(c), params: params, session: s}
		return s.slot
	case sharingGateway:
		s.params = params
	default:
		s.params = t.neutralParams(revision)
	}
	return t.slotOfCaller(c, s.params)
}

// neutralParams are those of an initialize that several clients can use: it declares
// nothing that a server could ask of one of them.
func (t *Transport) neutralParams(revision string) []byte {
	if known := mcp.LegacyRevisions(); !slices.Contains(known, revision) {
		revision = known[0]
	}
	return fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"svc","version":%s}}`, revision, mcp.AppendString(nil, t.opts.Version))
}

// sharingGateway is the sharing of the requests of the gateway itself.
const sharingGateway = "gateway"

// sharingFor returns what has a process of its own among the requests of a caller. One
// that is known by its address alone shares nothing with others of that address.
func (t *Transport) sharingFor(c *transport.Caller) string {
	switch sharing := t.config.Sharing; {
	case sharing == upstream.SharingAll:
		return sharing
	case c == nil:
		return sharingGateway
	case sharing == upstream.SharingPrincipal && c.Principal.Kind == auth.KindIP:
		return upstream.SharingSession
	default:
		return sharing
	}
}

// slotOfCaller returns the slot that a caller's requests outside of a session of their
// own use: params are those of its initialize, nil for none.
func (t *Transport) slotOfCaller(c *transport.Caller, params []byte) *slot {
	sharing, owner := t.sharingFor(c), ownerOf(c)
	var key string
	switch {
	case sharing == upstream.SharingAll:
		owner = ownerAll
		key = "all"
	case sharing == sharingGateway:
		key = "gateway"
	case sharing == upstream.SharingNone, c.Principal.Kind == auth.KindIP:
		return &slot{owner: owner, params: params, single: true}
	default:
		id, _ := c.CacheKey()
		key = "caller" + string(id[:])
	}
	digest := sha256.Sum256(params)
	key += string(digest[:])
	if params == nil {
		key += "no session"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sl := t.slots[key]
	if sl == nil {
		sl = &slot{key: key, owner: owner, params: params, users: map[*session]struct{}{}}
		t.slots[key] = sl
	}
	return sl
}

// find returns the session of a request, nil for none, and the slot of its process.
func (t *Transport) find(r *transport.Request) (*session, *slot) {
	if r.Session.ID == "" {
		return nil, t.slotOfCaller(r.Caller, nil)
	}
	t.mu.Lock()
	s := t.sessions.get(r.Session.ID)
	var uses *slot
	if s != nil {
		uses = s.uses
	}
	t.mu.Unlock()
	switch {
	case s == nil:
		return nil, nil
	case s.slot != nil:
		return s, s.slot
	case r.Caller == nil && uses != nil:
		return s, uses // the gateway speaks for the client, or for itself
	}
	sl := t.slotOfCaller(r.Caller, s.params)
	if sl.users != nil && uses != sl {
		t.join(s, sl)
	}
	return s, sl
}

// join makes a session one of those that use the process of a slot.
func (t *Transport) join(s *session, sl *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions.byID[s.id] == s {
		t.leave(s)
		s.uses = sl
		sl.users[s] = struct{}{}
	}
}

// leave takes a session off the process that it uses with others. The lock is held.
func (t *Transport) leave(s *session) {
	if s.uses != nil {
		delete(s.uses.users, s)
		t.dropUnused(s.uses)
		s.uses = nil
	}
}

// forget ends a session, and the process that it has for itself. The lock is held.
func (t *Transport) forget(s *session, why string) {
	t.sessions.remove(s)
	t.leave(s)
	s.standing.end()
	if s.slot != nil && s.slot.proc != nil {
		t.retire(s.slot.proc, why)
	}
}

// newID returns the id of a session.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// The owners of processes that are no caller's.
const (
	ownerGateway = ""
	ownerAll     = "all"
)

// ownerOf returns whom a process counts for: a principal; an address alone counts with
// its IPv6 /64.
func ownerOf(c *transport.Caller) string {
	if c == nil {
		return ownerGateway
	}
	p := *c.Principal
	if p.Kind == auth.KindIP {
		if a, err := netip.ParseAddr(p.Value); err == nil && a.Unmap().Is6() {
			if net, err := a.WithZone("").Prefix(64); err == nil {
				p.Value = net.String()
			}
		}
	}
	return string(p.AppendKey(nil))
}
