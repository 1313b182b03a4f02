// Package exchange is the state of one request on its way through a gateway, and its steps from
// admission to the route, or to the response that refuses it. Packages forwarding and streaming
// build on it: they send the request to the upstream and relay the response. Package accounting,
// on which it builds, records the request. The order of the steps is that of gateway/serve.go.
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

// Services is the state that requests use and that outlives them. It is complete before the first
// request; afterwards only Live changes.
type Services struct {
	accounting.Books
	Now  func() time.Time
	Live atomic.Pointer[snapshot.Snapshot]

	Proxies  *clientip.Resolver
	Versions mcp.Allowed
	routing.Table
	// Pins withholds definitions that are not approved; nil if no upstream has pins.
	Pins     *pinning.Guard
	Sessions *multiplex.Sessions // sessions at upstreams
	Merged   streams.MergedSet

	// Governance has the policies of the control plane; nil when they are not enforced.
	Governance *govern.Syncer
	Quality    *quality.Schemas // nil when no traces are reported
	Callouts   verdict.Callouts // nil when no metrics are served
	Limits     ratelimit.Store
	Bodies     *bodies.Counter

	Refused    *refused.Counters // counts of refused requests without an identified caller
	Failures   *failures.Log
	Background *background.Calls
	// Stopping ends when shutdown begins, before requests in flight are waited for.
	Stopping context.Context

	// WriteTimeout bounds the time in which a client must accept a part of an event stream.
	// Released is called with the buffers of a finished request; it may be nil. Both are set by
	// tests.
	WriteTimeout time.Duration
	Released     func(*Buffers)

	addressWarned atomic.Bool // the warning about proxies that send both headers was logged
}

// Buffers are reused by later requests.
type Buffers struct {
	Body     intake.Body
	Answer   []byte // the upstream's response body
	Own      []byte // a response body that the gateway writes itself
	FrameOut []byte // an event in the form in which it is sent
	Fields   upstream.Header
	SpanRoom []audit.Span
}

// keepBuffer is the size above which a buffer is not reused.
const keepBuffer = 256 << 10

func (b *Buffers) trim() {
	for _, p := range []*[]byte{&b.Body.Bytes, &b.Answer, &b.Own, &b.FrameOut} {
		if cap(*p) > keepBuffer {
			*p = nil
		}
	}
}

// Exchange is one request. It belongs to the request's goroutine; package streaming documents
// which fields the goroutines of a stream may use.
//
// Exchanges and their buffers are reused: no reference to one may outlive the request.
type Exchange struct {
	accounting.Entry
	Services *Services
	Live     *snapshot.Snapshot // the configuration of this request from start to end
	Writer   http.ResponseWriter
	Context  context.Context

	Addr       netip.Addr // address of the client
	Identified bool       // the caller is authenticated, or authentication is off
	Decision   policy.Decision
	Governed   Governed

	Found    federation.Found  // the upstream, and the name that it uses
	Outgoing transport.Request // the request to the upstream
	Reply    mcp.Message       // the plain response that is sent to the client
	Streamed streams.Counts
	bytes    bodies.Share // of request and response bodies

	// Unanswered is set when a stream ended without the answer or an error in its place: the
	// client disconnected, or can resume the stream.
	Unanswered bool
	// Executed is set when the upstream has begun to respond.
	Executed bool
	// rescued is set when WriteOverdue has responded to the request.
	rescued bool

	Buffers
}

// Governed is the result of the control plane's policies for one request.
type Governed struct {
	Set *govern.Set // of the caller's agent; nil when no policies are enforced
	// Fired are the policies that matched the request's own message; Changed is set when they
	// rewrote it.
	Fired   []*govern.Policy
	Changed bool
	// ByArguments is set when they evaluated its arguments.
	ByArguments bool
	Awaited     time.Duration // wait for the control plane's first bundle
}

var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

// Begin starts the exchange of a request at a view, nil for none. Call Release when the request
// has ended.
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

// Release returns the exchange to the pool: it must not be used afterwards.
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

// CountBytes returns the share that counts the bytes of a body for the request's caller.
func (ex *Exchange) CountBytes() *bodies.Share {
	ex.bytes.Begin(ex.Services.Bodies, ex.Owner())
	return &ex.bytes
}

// Owner returns the caller for whom the bytes of this request are counted.
func (ex *Exchange) Owner() bodies.Caller {
	return bodies.Caller{Who: &ex.Who.Principal, Known: ex.Live.Callers.Known(&ex.Who), Open: ex.Live.Callers.Open()}
}

// source returns the source of this request's body.
func (ex *Exchange) source() intake.Source {
	return intake.Source{Writer: ex.Writer, Request: ex.HTTP, Share: ex.CountBytes()}
}

// ClientAddr returns the address of the client, behind trusted proxies.
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

// ErrStopping is the cause with which the gateway cancels the streams that it ends at shutdown,
// and the server the requests that are still in flight after shutdown.grace. Without this cause,
// the client has cancelled the request.
var ErrStopping = fmt.Errorf("the gateway is stopping: %w", context.Canceled)

// EndsAtStop makes the context of the exchange end with EndStreams. The caller must call release.
func (ex *Exchange) EndsAtStop() (release func()) {
	ctx, cancel := context.WithCancelCause(ex.Context)
	stop := context.AfterFunc(ex.Services.Stopping, func() { cancel(ErrStopping) })
	ex.Context = ctx
	return func() {
		stop()
		cancel(nil)
	}
}

// Stopped reports whether shutdown ended the request, and not its client.
func (ex *Exchange) Stopped() bool {
	return ex.Context.Err() != nil && errors.Is(context.Cause(ex.Context), ErrStopping)
}
