package server

import (
	"container/list"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// windowLength is the length of every rate window (control-plane
// specification, Limits: requests per minute, sliding window).
const windowLength = time.Minute

// maxAddresses bounds the number of client addresses without a valid key that have
// their own window. Further addresses share one window.
const maxAddresses = 16384

// quota is the state of one rate window for one request.
type quota struct {
	allowed   bool
	limit     int           // requests allowed per window
	remaining int           // requests left in the window, after this request
	reset     time.Time     // when the oldest counted request leaves the window
	wait      time.Duration // how long a rejected request should wait; 0 when allowed
}

// window is an exact sliding log of accepted requests: a request is accepted when
// fewer than limit were accepted within the window that ends now. A request that
// is exactly windowLength old is no longer in the window. Rejected requests do not
// count, so a client that keeps sending is accepted as soon as the window has
// room.
type window struct {
	at   []time.Time // times of the accepted requests, oldest first, from head on
	head int
	last time.Time // latest time seen; the clock may step back
}

// advance removes the requests that are older than the window at now. When the
// clock steps back, all recorded timestamps are shifted by the step: the count
// stays correct, and no client is locked out for the size of the step.
func (w *window) advance(now time.Time) {
	if step := w.last.Sub(now); step > 0 {
		for i := w.head; i < len(w.at); i++ {
			w.at[i] = w.at[i].Add(-step)
		}
	}
	w.last = now
	for w.head < len(w.at) && now.Sub(w.at[w.head]) >= windowLength {
		w.head++
	}
	if w.head > 64 && w.head*2 > len(w.at) {
		w.at = w.at[:copy(w.at, w.at[w.head:])]
		w.head = 0
	}
}

// quota returns the state of the window at now; count is the number of requests in
// it.
func (w *window) quota(now time.Time, limit int, allowed bool) quota {
	count := len(w.at) - w.head
	q := quota{allowed: allowed, limit: limit, remaining: max(limit-count, 0), reset: now.Add(windowLength)}
	if count > 0 {
		q.reset = w.at[w.head].Add(windowLength)
	}
	if !allowed {
		q.wait = q.reset.Sub(now)
	}
	return q
}

// windows holds the sliding windows of one kind (tenants, or client addresses).
// Its methods are safe for concurrent use.
type windows struct {
	kind  string // prefix of the windows in the shared store; empty: not shared
	limit int
	max   int // number of windows kept; 0 means no bound

	mu     sync.Mutex
	byName map[string]*list.Element // of *namedWindow
	recent *list.List               // most recently used in front
	shared window                   // shared by the names beyond the bound
}

type namedWindow struct {
	name string
	window
}

func newWindows(limit, max int) *windows {
	return &windows{limit: limit, max: max, byName: map[string]*list.Element{}, recent: list.New()}
}

// note counts a request that was accepted by the shared windows, even when the
// window is full.
func (ws *windows) note(name string, now time.Time) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.find(name, now)
	w.advance(now)
	w.at = append(w.at, now)
}

// take counts a request of name at now if its window is not full.
func (ws *windows) take(name string, now time.Time) quota {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.find(name, now)
	w.advance(now)
	if len(w.at)-w.head >= ws.limit {
		return w.quota(now, ws.limit, false)
	}
	w.at = append(w.at, now)
	return w.quota(now, ws.limit, true)
}

// peek returns the state of the window of name at now and counts nothing.
func (ws *windows) peek(name string, now time.Time) quota {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e, ok := ws.byName[name]
	if !ok {
		return quota{allowed: true, limit: ws.limit, remaining: ws.limit, reset: now.Add(windowLength)}
	}
	w := &e.Value.(*namedWindow).window
	w.advance(now)
	return w.quota(now, ws.limit, true)
}

// find returns the window of name. Only an empty window is evicted: otherwise an
// address could get a fresh window by sending from many other addresses. When no
// window can be evicted, new names share one.
func (ws *windows) find(name string, now time.Time) *window {
	if e, ok := ws.byName[name]; ok {
		ws.recent.MoveToFront(e)
		return &e.Value.(*namedWindow).window
	}
	if ws.max > 0 && ws.recent.Len() >= ws.max {
		oldest := ws.recent.Back()
		w := oldest.Value.(*namedWindow)
		w.advance(now)
		if len(w.at) > w.head {
			return &ws.shared
		}
		ws.recent.Remove(oldest)
		delete(ws.byName, w.name)
	}
	w := &namedWindow{name: name}
	ws.byName[name] = ws.recent.PushFront(w)
	return &w.window
}

// Windows are sliding windows of a minute for what the API does not count itself, such as wrong keys at a sign-in.
// Its methods are safe for concurrent use.
type Windows struct{ w *windows }

// NewWindows returns windows in which limit events a minute and name are allowed. Many names share one window when
// there are more of them than a server remembers.
func NewWindows(limit int) *Windows { return &Windows{newWindows(limit, maxAddresses)} }

// Take counts an event of name at now if the window has room, and returns 0; else how long to wait.
func (ws *Windows) Take(name string, now time.Time) (wait time.Duration) {
	return ws.w.take(name, now).wait
}

// setRateHeaders writes the headers that every response under /api carries
// (control-plane specification, Limits). Retry-After is set on 429 only.
func setRateHeaders(h http.Header, q quota) {
	h.Set("X-RateLimit-Limit", strconv.Itoa(q.limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(q.remaining))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(ceilSeconds(q.reset), 10))
	if !q.allowed {
		h.Set("Retry-After", strconv.FormatInt(max(int64((q.wait+time.Second-1)/time.Second), 1), 10))
	}
}

// ceilSeconds rounds up, so that a client that waits until X-RateLimit-Reset never
// comes too early.
func ceilSeconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// clientAddress returns the key of the peer in the windows of requests without a
// valid key. Forwarding headers are ignored because any client can set them. An
// IPv6 peer counts as its /64, which usually belongs to one subscriber.
func clientAddress(r *http.Request) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return Subscriber(ap.Addr())
}

// Subscriber returns an address as windows count it: one of IPv6 as its /64.
func Subscriber(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.String()
		}
	}
	return addr.String()
}

// peerAddress is the full address of the peer.
func peerAddress(r *http.Request) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return ap.Addr().Unmap().WithZone("").String()
}
