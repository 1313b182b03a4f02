package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/base/background"
	"svc/gateway/base/retry"
	"svc/gateway/catalog"
	"svc/gateway/catalog/pins"
	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/request/multiplex"
	"svc/gateway/request/streams"
	"svc/gateway/request/verdict"
	"svc/gateway/session/bodies"
	"svc/gateway/telemetry"
	"svc/gateway/upstream"
)

// Services is the state that requests use and that outlives them. It is complete before the first
// request; afterwards only Live changes.
type Services struct {
	Audit   *audit.Log
	Tracer  *telemetry.Tracer  // nil when no spans are exported
	Metrics *telemetry.Metrics // nil when no metrics are served
	Log     *slog.Logger
	Now     func() time.Time
	// Since returns the time since t by the gateway's clock.
	Since    func(time.Time) time.Duration
	Live     atomic.Pointer[Snapshot]
	Proxies  *http1.Resolver
	Versions mcp.Allowed
	Table
	Lists *catalog.Reader // of what the upstreams offer
	// Pins withholds definitions that are not approved; nil if no upstream has pins.
	Pins     *pins.Guard
	Sessions *multiplex.Sessions // sessions at upstreams
	Merged   streams.MergedSet
	Streams  streams.Open // the event streams that are open

	// Governance has the policies of the control plane; nil when they are not enforced.
	Governance *plane.Syncer
	Quality    *detect.Schemas // nil when no traces are reported
	// Approvals asks people about calls; nil without a control plane.
	Approvals *plane.Approvals
	Gateway   string // the name of this gateway at the control plane
	Limits    redis.Store
	Flow      *flow.Memory // data-flow labels of callers
	Bodies    *bodies.Counter

	Refused    *Counters // counts of refused requests without an identified caller
	Failures   *Log
	Strangers  *Log // callers that are not authenticated
	Background *background.Calls
	// Stopping ends when shutdown begins, before requests in flight are waited for.
	Stopping context.Context

	// WriteTimeout bounds the time in which a client must accept a part of an event stream. Tests
	// shorten it.
	WriteTimeout time.Duration
	// Released is called with the buffers of a finished request; it may be nil. Only tests set it.
	Released func(*Buffers)

	addressWarned atomic.Bool   // the warning about proxies that send both headers was logged
	unwritten     retry.Repeats // bounds the log lines about audit lines that were not written
}

// Buffers are reused by later requests.
type Buffers struct {
	Body     Body
	Answer   []byte // the upstream's response body
	Own      []byte // a response body that the gateway writes itself
	FrameOut []byte // an event in the form in which it is sent
	Fields   mcp.Header
	Spans    []audit.Span // of the audit line
	// Principal is the key of a caller, often of the next request's too.
	Principal string
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

// Exchange is one request. Its steps fill it in. It belongs to the request's goroutine; stream.go
// documents which fields the goroutines of a stream may use.
//
// Exchanges and their buffers are reused: no reference to one may outlive the request.
type Exchange struct {
	Services *Services
	Live     *Snapshot // the configuration of this request from start to end
	HTTP     *http.Request
	Writer   http.ResponseWriter
	Context  context.Context
	start    time.Time

	caller     caller
	Message    mcp.Message // as it is judged and forwarded
	hasMessage bool
	dialect    mcp.Dialect
	// absent is the error for what the revision requires and the request does not have; nil if it
	// has everything. Only answers of the gateway itself are refused for it.
	absent  error
	Session multiplex.Request

	decision policy.Decision
	// asks are the rules and policies that let the message pass only with a grant, each once.
	asks []verdict.Ask
	// approval is that of a message with asks; nil for others.
	approval *approval
	governed governed
	// restoring puts the values of tokens back into the request; set when its message could have
	// tokens.
	restoring *plane.Restoring

	route    Found
	outgoing upstream.Request // the request to the upstream
	reply    mcp.Message      // the plain response that is sent to the client
	streamed streams.Counts
	began    bool // the header of an event stream is sent
	labels   labels
	// executed is set when the upstream has begun to respond.
	executed bool
	// answered is set when the upstream has answered the request.
	answered bool
	// unanswered is set when a stream ended without the answer or an error in its place: the
	// client disconnected, or can resume the stream.
	unanswered bool

	times   times
	trace   place
	record  audit.Record // the audit line
	audited bool         // it is written
	counted bool         // the request is in a summary and has no line of its own
	rescued bool         // WriteOverdue has responded to the request

	bytes   bodies.Share // of request and response bodies
	buffers Buffers
}

// caller is who sent the request.
type caller struct {
	from       Client
	id         Identity // the address until the caller is authenticated
	identified bool     // the caller is authenticated, or authentication is off
}

// governed is the result of the control plane's policies for one request.
type governed struct {
	bundle *plane.Bundle
	set    *plane.Set // of the caller's agent; nil when no policies are enforced
	// fired are the policies that matched the request's own message; changed is set when they
	// rewrote it.
	fired   []*plane.Policy
	changed bool
	// byArguments is set when they evaluated its arguments.
	byArguments bool
	awaited     time.Duration // wait for the control plane's first bundle
}

var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

// Begin starts the exchange of a request at a view, nil for none. Call Release when the request
// has ended.
func Begin(s *Services, w http.ResponseWriter, r *http.Request, v *auth.View) *Exchange {
	ex := exchanges.Get().(*Exchange)
	start := s.Now() // before the configuration is read: what a removed key opens began before its removal
	*ex = Exchange{Services: s, Live: s.Live.Load(), HTTP: r, Writer: w, Context: r.Context(), start: start, buffers: ex.buffers}
	ex.buffers.Body.Reset()
	ex.Session = multiplex.Request{Sessions: s.Sessions, Header: r.Header, Who: &ex.caller.id.Principal, Start: start, Keys: ex.Live.Callers.Keys(), Message: &ex.Message, View: v}
	ex.caller.from.Addr = s.ClientAddr(r)
	ex.caller.from.Address = http1.Text(ex.caller.from.Addr, r.RemoteAddr)
	ex.caller.id = byAddress(ex.caller.from.Address)
	ex.record.RequestID, ex.record.Time, ex.record.View = NewID(ex.start), ex.start, v.String()
	return ex
}

// Release returns the exchange to the pool: it must not be used afterwards.
func (ex *Exchange) Release() {
	ex.bytes.End()
	if f := ex.Services.Released; f != nil {
		f(&ex.buffers)
	}
	ex.buffers.trim()
	clear(ex.buffers.Fields[:cap(ex.buffers.Fields)])
	*ex = Exchange{buffers: ex.buffers}
	exchanges.Put(ex)
}

// countBytes returns the share that counts the bytes of a body for the request's caller.
func (ex *Exchange) countBytes() *bodies.Share {
	ex.bytes.Begin(ex.Services.Bodies, ex.owner())
	return &ex.bytes
}

// owner returns the caller for whom the bytes of this request are counted.
func (ex *Exchange) owner() bodies.Caller {
	return bodies.Caller{Who: &ex.caller.id.Principal, Known: ex.Live.Callers.Known(&ex.caller.id), Open: ex.Live.Callers.Open()}
}

// source returns the source of this request's body.
func (ex *Exchange) source() Source {
	return Source{Writer: ex.Writer, Request: ex.HTTP, Share: ex.countBytes()}
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

// endsAtStop makes the context of the exchange end with EndStreams. The caller must call release.
func (ex *Exchange) endsAtStop() (release func()) {
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
