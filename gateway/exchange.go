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
	"svc/gateway/intake"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/policy"
	"svc/gateway/requestid"
	"svc/gateway/streams"
	"svc/gateway/transport"
	"svc/gateway/upstream"
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

// buffers are kept from request to request.
type buffers struct {
	body     intake.Body
	answer   []byte // the answer as it came
	own      []byte // an answer of the gateway's own
	frameOut []byte // an event as it is sent
	fields   upstream.Header
	spans    []audit.Span
}

// keepBuffer is the size beyond which a buffer is not kept.
const keepBuffer = 256 << 10

func (b *buffers) trim() {
	for _, p := range []*[]byte{&b.body.Bytes, &b.answer, &b.own, &b.frameOut} {
		if cap(*p) > keepBuffer {
			*p = nil
		}
	}
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
