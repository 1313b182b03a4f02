package gateway

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"svc/gateway/audit"
	"svc/gateway/bodies"
	"svc/gateway/caller"
	"svc/gateway/federation"
	"svc/gateway/govern"
	"svc/gateway/intake"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/policy"
	"svc/gateway/requestid"
	"svc/gateway/streams"
	"svc/gateway/telemetry"
	"svc/gateway/transport"
)

// exchange is one request on its way through the gateway: what is known of it
// so far, and the audit record that grows with it. It belongs to the request's
// goroutine; stream.go says what the goroutines of a stream may touch.
//
// Exchanges are reused, buffers included: nothing that outlives the request
// may keep a slice of one.
type exchange struct {
	g    *Gateway
	live *live // the snapshot that this request sees from start to end
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context

	start   time.Time
	addr    netip.Addr // of the client
	address string     // its text
	who     caller.Identity

	msg      mcp.Message // what was judged, and what is sent
	hasMsg   bool
	reply    mcp.Message // a plain answer, what of it goes on
	dialect  mcp.Dialect
	decision policy.Decision

	identified bool // the caller is who it says, or nobody asks
	session    multiplex.Request

	up       *transport.Upstream
	found    federation.Found  // where it goes, and under which name
	outgoing transport.Request // what the upstream is sent
	sentUp   time.Time         // when the upstream was asked
	judging  time.Duration
	// judgedFrom is when the rules were asked.
	judgedFrom time.Time
	asking     asking // guardrails
	governed   governed
	graded     time.Duration // how long the answer was scored
	streamed   streams.Counts

	place place // in its trace

	bytes bodies.Share // of its bodies

	began bool // the header of an event stream is sent
	// unanswered is set when a stream ended before the answer and nothing was put
	// in its place: the client left, or comes back for the rest.
	unanswered bool

	rec     audit.Record
	audited bool // the request line is written
	counted bool // a summary has the request; it has no line of its own
	// rescued is set when the request was answered while it waited for the disk.
	rescued bool
	// executed is set once the upstream has begun to answer.
	executed bool

	buffers
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	ex := exchanges.Get().(*exchange)
	*ex = exchange{
		g: g, live: g.live.Load(), w: w, r: r, ctx: r.Context(), start: g.now(),
		buffers: ex.buffers,
	}
	ex.body.Reset()
	ex.session = multiplex.Request{Sessions: g.sessions, Header: r.Header, Who: &ex.who.Principal, Message: &ex.msg}
	ex.addr = g.clientAddr(r)
	ex.address = textOf(ex.addr, r.RemoteAddr)
	ex.who = caller.ByAddress(ex.address)
	ex.rec.RequestID = requestid.New(ex.start)
	ex.rec.Time = ex.start
	return ex
}

// now is the time, for telling how long something takes: the clock of the day is
// not asked again.
func (ex *exchange) now() time.Time { return ex.start.Add(ex.g.since(ex.start)) }

// textOf returns the text of an address, which in most cases stands in the peer's
// already.
func textOf(a netip.Addr, peer string) string {
	var room [64]byte
	text := a.AppendTo(room[:0])
	if n := len(text); len(peer) > n && peer[n] == ':' && string(text) == peer[:n] {
		return peer[:n]
	}
	return string(text)
}

func (ex *exchange) release() {
	ex.bytes.End()
	if f := ex.g.released; f != nil {
		f(&ex.buffers)
	}
	ex.trim()
	clear(ex.fields[:cap(ex.fields)])
	*ex = exchange{buffers: ex.buffers}
	exchanges.Put(ex)
}

// asking is how long guardrails were asked about a request, and about its
// answer.
type asking struct{ request, answer time.Duration }

// governed is what the policies of the control plane did to one request.
type governed struct {
	set *govern.Set // of its agent; nil when nothing is asked
	// fired are the policies that fired on the request's own message, and changed
	// says that they rewrote it.
	fired   []*govern.Policy
	changed bool
	// scan is how long texts were looked at, answer how long the answer was judged.
	scan, answer time.Duration
	scanFrom     time.Time
	awaited      time.Duration // the first answer of the control plane
}

// place is where a request stands in its trace, as far as anyone has asked.
type place struct {
	telemetry.Trace
	known      bool
	fromHeader bool   // the caller's position stood in a header
	state      string // the caller's tracestate, where it stood in the message
}

// countBytes says of a share of the bytes in memory whose it is.
func (ex *exchange) countBytes(s *bodies.Share) {
	s.Begin(ex.g.bodies, bodies.Caller{Who: &ex.who.Principal, Known: ex.live.callers.Known(&ex.who), Open: ex.live.callers.Open()})
}

// source is where the body of this request comes from.
func (ex *exchange) source() intake.Source {
	ex.countBytes(&ex.bytes)
	return intake.Source{Writer: ex.w, Request: ex.r, Share: &ex.bytes}
}

// clientAddr is the address of the client, behind trusted proxies.
func (g *Gateway) clientAddr(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	forwarded, xForwardedFor := r.Header["Forwarded"], r.Header["X-Forwarded-For"]
	if len(forwarded) > 0 && len(xForwardedFor) > 0 && !g.addressWarned.Load() &&
		g.proxies.Conflict(peer.Addr(), forwarded, xForwardedFor) && g.addressWarned.CompareAndSwap(false, true) {
		g.log.Warn("a trusted proxy sent Forwarded and X-Forwarded-For with different clients: Forwarded is used, and the client may have written it",
			"proxy", peer.Addr(), "forwarded", g.proxies.Client(peer.Addr(), forwarded, nil), "x_forwarded_for", g.proxies.Client(peer.Addr(), nil, xForwardedFor),
			"fix", "set client_address_header to the header that the proxy writes, and let the proxy remove the other one")
	}
	return g.proxies.Client(peer.Addr(), forwarded, xForwardedFor)
}
