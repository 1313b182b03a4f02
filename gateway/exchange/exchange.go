// Package exchange is one request on its way through a gateway: what is known of it so
// far, and the steps that take it from its admission to its upstream, up to the answer
// that refuses it. What is sent to an upstream and what becomes of its answer is above,
// in the packages forwarding and streaming; what is recorded of it is below, in
// package accounting. The order of the steps is that of gateway/serve.go.
package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/accounting"
	"svc/gateway/audit"
	"svc/gateway/background"
	"svc/gateway/bodies"
	"svc/gateway/caller"
	"svc/gateway/clientip"
	"svc/gateway/failures"
	"svc/gateway/federation"
	"svc/gateway/govern"
	"svc/gateway/intake"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/pinning"
	"svc/gateway/policy"
	"svc/gateway/quality"
	"svc/gateway/ratelimit"
	"svc/gateway/refused"
	"svc/gateway/requestid"
	"svc/gateway/routing"
	"svc/gateway/snapshot"
	"svc/gateway/streams"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
	"svc/gateway/views"
)

// Services are what requests use of their gateway and what outlives them. They are made
// before the first request; Live alone changes afterwards.
type Services struct {
	accounting.Books
	Now  func() time.Time
	Live atomic.Pointer[snapshot.Snapshot]

	Proxies  *clientip.Resolver
	Versions mcp.Allowed
	routing.Table
	// Pins withholds definitions that nobody approved; nil unless they are pinned.
	Pins     *pinning.Guard
	Sessions *multiplex.Sessions // at upstreams
	Merged   streams.MergedSet

	// Governance holds the policies of the control plane; nil when they are not
	// enforced.
	Governance *govern.Syncer
	Quality    *quality.Schemas // nil when no traces are reported
	Callouts   verdict.Callouts // nil when no metrics are served
	Limits     ratelimit.Store
	Bodies     *bodies.Counter

	Refused    *refused.Counters // of requests whose callers were not identified
	Failures   *failures.Log
	Background *background.Calls
	// Stopping ends when the gateway stops, before requests in flight are waited for.
	Stopping context.Context

	// WriteTimeout and Released are for tests: how long a client may take for a part
	// of an event stream, and what is done with the buffers of a request when they are
	// given back; nil for nothing.
	WriteTimeout time.Duration
	Released     func(*Buffers)

	addressWarned atomic.Bool // of proxies that send both headers
}

// Buffers are kept from request to request.
type Buffers struct {
	Body     intake.Body
	Answer   []byte // the answer as it came
	Own      []byte // an answer of the gateway's own
	FrameOut []byte // an event as it is sent
	Fields   upstream.Header
	SpanRoom []audit.Span
}

// keepBuffer is the size beyond which a buffer is not kept.
const keepBuffer = 256 << 10

func (b *Buffers) trim() {
	for _, p := range []*[]byte{&b.Body.Bytes, &b.Answer, &b.Own, &b.FrameOut} {
		if cap(*p) > keepBuffer {
			*p = nil
		}
	}
}

// Exchange is one request. It belongs to the request's goroutine; package streaming says
// what the goroutines of a stream may touch.
//
// Exchanges are reused, buffers included: nothing that outlives the request
// may keep a slice of one.
type Exchange struct {
	accounting.Entry
	Services *Services
	Live     *snapshot.Snapshot // what this request sees from start to end
	Writer   http.ResponseWriter
	Context  context.Context

	Addr       netip.Addr // of the client
	Identified bool       // the caller is who it says, or nobody asks
	Decision   policy.Decision
	Governed   Governed

	Found    federation.Found  // where it goes, and under which name
	Outgoing transport.Request // what the upstream is sent
	Reply    mcp.Message       // a plain answer, what of it goes on
	Streamed streams.Counts
	bytes    bodies.Share // of its bodies

	// Unanswered is set when a stream ended before the answer and nothing was put
	// in its place: the client left, or comes back for the rest.
	Unanswered bool
	// Executed is set once the upstream has begun to answer.
	Executed bool
	// rescued is set when the request was answered while it waited for the disk.
	rescued bool

	Buffers
}

// Governed is what the policies of the control plane did to one request.
type Governed struct {
	Set *govern.Set // of its agent; nil when nothing is asked
	// Fired are the policies that fired on the request's own message, and Changed
	// says that they rewrote it.
	Fired   []*govern.Policy
	Changed bool
	// ByArguments says that they examined its arguments.
	ByArguments bool
	Awaited     time.Duration // the first answer of the control plane
}

var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

// Begin takes in a request at a view, nil for all. Release must be called when it has ended.
func Begin(s *Services, w http.ResponseWriter, r *http.Request, v *views.View) *Exchange {
	ex := exchanges.Get().(*Exchange)
	*ex = Exchange{Services: s, Live: s.Live.Load(), Writer: w, Context: r.Context(), Buffers: ex.Buffers}
	ex.Books, ex.HTTP, ex.Start, ex.Spans = &s.Books, r, s.Now(), ex.SpanRoom
	ex.ControlPlane, ex.Received, ex.Waiting = &ex.Live.Config.ControlPlane, &ex.Body, ex
	ex.Body.Reset()
	ex.Session = multiplex.Request{Sessions: s.Sessions, Header: r.Header, Who: &ex.Who.Principal, Message: &ex.Message, View: v}
	ex.Addr = s.ClientAddr(r)
	ex.Address = clientip.Text(ex.Addr, r.RemoteAddr)
	ex.Who = caller.ByAddress(ex.Address)
	ex.Record.RequestID, ex.Record.Time, ex.Record.View = requestid.New(ex.Start), ex.Start, v.String()
	return ex
}

// Release ends the request: nothing may use it afterwards.
func (ex *Exchange) Release() {
	ex.bytes.End()
	ex.SpanRoom = ex.Spans
	if f := ex.Services.Released; f != nil {
		f(&ex.Buffers)
	}
	ex.trim()
	clear(ex.Fields[:cap(ex.Fields)])
	*ex = Exchange{Buffers: ex.Buffers}
	exchanges.Put(ex)
}

// CountBytes counts the bytes of an answer among those of the request's caller.
func (ex *Exchange) CountBytes() *bodies.Share {
	ex.bytes.Begin(ex.Services.Bodies, ex.Owner())
	return &ex.bytes
}

// Owner is whose the bytes of this request are.
func (ex *Exchange) Owner() bodies.Caller {
	return bodies.Caller{Who: &ex.Who.Principal, Known: ex.Live.Callers.Known(&ex.Who), Open: ex.Live.Callers.Open()}
}

// source is where the body of this request comes from.
func (ex *Exchange) source() intake.Source {
	return intake.Source{Writer: ex.Writer, Request: ex.HTTP, Share: ex.CountBytes()}
}

// ClientAddr is the address of the client, behind trusted proxies.
func (s *Services) ClientAddr(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	forwarded, xForwardedFor := r.Header["Forwarded"], r.Header["X-Forwarded-For"]
	if len(forwarded) > 0 && len(xForwardedFor) > 0 && !s.addressWarned.Load() &&
		s.Proxies.Conflict(peer.Addr(), forwarded, xForwardedFor) && s.addressWarned.CompareAndSwap(false, true) {
		s.Log.Warn("a trusted proxy sent Forwarded and X-Forwarded-For with different clients: Forwarded is used, and the client may have written it",
			"proxy", peer.Addr(), "forwarded", s.Proxies.Client(peer.Addr(), forwarded, nil), "x_forwarded_for", s.Proxies.Client(peer.Addr(), nil, xForwardedFor),
			"fix", "set client_address_header to the header that the proxy writes, and let the proxy remove the other one")
	}
	return s.Proxies.Client(peer.Addr(), forwarded, xForwardedFor)
}

// ErrStopping is the cause with which the server cancels the requests that are still
// in flight when shutdown.grace is over, and the gateway the streams that it ends
// before that. A request whose context ends without it was left by its client.
var ErrStopping = fmt.Errorf("the gateway is stopping: %w", context.Canceled)

// EndsAtStop makes the context of the exchange end with EndStreams. The function
// releases what that needs.
func (ex *Exchange) EndsAtStop() (release func()) {
	ctx, cancel := context.WithCancelCause(ex.Context)
	stop := context.AfterFunc(ex.Services.Stopping, func() { cancel(ErrStopping) })
	ex.Context = ctx
	return func() {
		stop()
		cancel(nil)
	}
}

// Stopped reports whether the request was cut by a stop of the process, and not by
// its client.
func (ex *Exchange) Stopped() bool {
	return ex.Context.Err() != nil && errors.Is(context.Cause(ex.Context), ErrStopping)
}
