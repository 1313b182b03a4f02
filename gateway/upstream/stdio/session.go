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
	"svc/gateway/upstream"
)

// maxSessions bounds the sessions of an upstream. Beyond it the least recently used
// session is forgotten: its client must begin a new one.
const maxSessions = 4096

// session is a session at the upstream.
type session struct {
	id string
	// slot is the session's own slot; nil if it shares a process: see Transport.shared.
	slot *slot
	// params are the params of the initialize that its processes receive.
	params        []byte
	sessionStream sessionStream
	uris          subscriptions // if several sessions share the process

	initialized atomic.Bool            // the client has sent notifications/initialized
	level       atomic.Pointer[[]byte] // params of the last logging/setLevel
	uses        *slot                  // the last shared slot; guarded by the lock of the transport
	at          *list.Element
}

// sessions is the set of sessions. The lock of the transport guards it.
type sessions struct {
	byID  map[string]*session
	order *list.List // most recently used first
}

func newSessions() sessions { return sessions{byID: map[string]*session{}, order: list.New()} }

// get returns a session; nil if there is none.
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

// oldest returns the least recently used session if there are too many.
func (s *sessions) oldest() *session {
	if s.order.Len() <= maxSessions {
		return nil
	}
	return s.order.Back().Value.(*session)
}

// initialize opens a session: it starts the session's process, and returns the process's
// response.
func (t *Transport) initialize(ctx context.Context, r *upstream.Request, m *mcp.Message) (*upstream.Response, error) {
	s := &session{id: newID(), sessionStream: sessionStream{room: &t.room}}
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

// giveUp ends the process of a session whose client did not wait for it, including a
// process that is being started.
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
		t.retire(sl.proc, "its client has disconnected")
	}
}

// withID returns a response with the id of the given request.
func withID(answer, id []byte) []byte {
	var m mcp.Message
	_ = mcp.Scan(answer, &m) // it was scanned before
	return mcp.Splice(nil, answer, mcp.Edit{At: m.Spans.ID, With: id})
}

// slotOfSession returns the slot of a new session, according to the sharing of the
// upstream.
func (t *Transport) slotOfSession(s *session, c *upstream.Caller, params []byte, revision string) *slot {
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

// neutralParams are the params of an initialize for several clients: it declares no
// capability that would let a server send requests to one of them, and the extensions with which
// the gateway reads lists, so that the process has the tools that are in them.
func (t *Transport) neutralParams(revision string) []byte {
	if known := mcp.LegacyRevisions(); !slices.Contains(known, revision) {
		revision = known[0]
	}
	return fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{"extensions":%s},"clientInfo":{"name":"svc","version":%s}}`, revision, mcp.HostExtensions, mcp.AppendString(nil, t.opts.Version))
}

// sharingGateway is the sharing of the gateway's own requests.
const sharingGateway = "gateway"

// sharingFor returns the unit of a caller's requests that has a process of its own. A
// caller that is identified by its address only shares no process with others of that
// address.
func (t *Transport) sharingFor(c *upstream.Caller) string {
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

// slotOfCaller returns the slot for a caller's requests outside of a session: params are
// the params of its initialize, nil for none.
func (t *Transport) slotOfCaller(c *upstream.Caller, params []byte) *slot {
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

// find returns the session of a request with a message, nil for none, and the slot of its
// process.
func (t *Transport) find(r *upstream.Request, m *mcp.Message) (*session, *slot) {
	if v := r.Session.Version; r.Session.ID == "" {
		if m == nil || m.Method == mcp.MethodDiscover || mcp.Modern(v) || v != "" && mcp.ImpossibleRevision(v) {
			return nil, t.slotOfCaller(r.Caller, nil)
		}
		// A program with sessions answers nothing before initialize. Clients may omit it, because
		// servers over HTTP need not have sessions.
		return nil, t.slotOfCaller(r.Caller, t.neutralParams(v))
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
		return s, uses // a request of the gateway, for the client or for itself
	}
	sl := t.slotOfCaller(r.Caller, s.params)
	if sl.users != nil && uses != sl {
		t.join(s, sl)
	}
	return s, sl
}

// join adds a session to the users of a slot's process.
func (t *Transport) join(s *session, sl *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions.byID[s.id] == s {
		t.leave(s)
		s.uses = sl
		sl.users[s] = struct{}{}
	}
}

// leave removes a session from the shared process that it uses. The caller holds the
// lock.
func (t *Transport) leave(s *session) {
	if s.uses != nil {
		delete(s.uses.users, s)
		t.dropUnused(s.uses)
		s.uses = nil
	}
}

// forget ends a session, and its own process. The caller holds the lock.
func (t *Transport) forget(s *session, why string) {
	t.sessions.remove(s)
	t.leave(s)
	s.sessionStream.end()
	if s.slot != nil && s.slot.proc != nil {
		t.retire(s.slot.proc, why)
	}
}

// newID returns a random session id.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// The owners of processes that do not belong to a caller.
const (
	ownerGateway = ""
	ownerAll     = "all"
)

// ownerOf returns the owner that a process is counted for: a principal; a caller without
// one is counted by its address or IPv6 /64.
func ownerOf(c *upstream.Caller) string {
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
