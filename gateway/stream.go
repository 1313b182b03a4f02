package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"svc/gateway/audit"
	"svc/gateway/bodies"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/streams"
	"svc/gateway/tag"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// relayed is an event stream of one upstream.
type relayed struct {
	client streams.Client
	up     streams.Upstream
	frames frames
}

// relayStream passes an event stream on. From the first byte to the client on,
// every outcome is told inside the stream.
func (ex *exchange) relayStream(resp *upstream.Response) *refusal.Refusal {
	if refused := ex.accountOpening(); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancelCause(ex.ctx)
	defer cancel(nil)
	s := new(relayed)
	s.frames = frames{ex: ex, client: &s.client, up: ex.up, session: ex.session.There, answers: ex.answers()}
	s.client.Init(streamHost{ex}.options(cancel))
	s.up.Init(&s.client, &s.frames, tag.Stream{Kind: ex.session.TagFor(tag.Post), Upstream: ex.up.Name}, ex.frameOut[:0])
	ex.copyHeader(resp.Header)
	ex.began = true
	s.client.Start()
	defer func() { // also when something panics: the watchdog uses the exchange
		s.client.Stop()
		streamHost{ex}.note(s.client.Counts())
	}()
	err := s.up.Copy(ctx, resp)
	ex.frameOut = s.up.Buffer()
	streamHost{ex}.finish(ctx, &s.client, err, s.up.Resumable())
	return nil
}

// mergeStreams answers GET with one stream for all upstreams of the session,
// each going on where the client left it.
func (ex *exchange) mergeStreams(at *tag.Positions) *refusal.Refusal {
	if refused := ex.accountOpening(); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancelCause(ex.ctx)
	m := ex.g.merged.Open(ctx, streams.MergedOptions{
		Options: streamHost{ex}.options(cancel), Session: ex.session.Handle.ID, Sources: sources{ex},
		Upstreams: ex.g.targets, Positions: at, Replicated: ex.g.sessions.Replicated,
	})
	defer func() { // also when something panics: its goroutines use the exchange
		m.Close()
		streamHost{ex}.note(m.Counts())
	}()
	ex.began = true
	m.Run(ex.up, ex.session.There)
	streamHost{ex}.finish(ctx, &m.Client, context.Cause(ctx), true)
	return nil
}

// accountOpening writes the opening line of a stream.
func (ex *exchange) accountOpening() *refusal.Refusal {
	ex.rec.Kind = audit.KindOpen
	ex.rec.Status = http.StatusOK
	ex.describe()
	err := ex.write()
	ex.rec.Kind = audit.KindRequest
	if err != nil {
		return &refusal.Audit
	}
	return nil
}

// streamHost is the request whose response a stream is. Its exported methods are called
// by the goroutines of the stream: they read of the exchange what was settled before
// the stream began, and change nothing.
type streamHost struct{ ex *exchange }

func (h streamHost) Now() time.Time { return h.ex.now() }

func (h streamHost) CredentialsValid() error {
	return h.ex.g.live.Load().callers.Check(&h.ex.who)
}

func (h streamHost) Keepalive() time.Duration { return h.ex.g.live.Load().cfg.SSEKeepalive }

func (h streamHost) Panicked(where string, value any, stack []byte) {
	h.ex.g.log.Error("panic", "in", where, "panic", value, "stack", string(stack))
}

// options are those of the client's side of a stream.
func (h streamHost) options(cancel context.CancelCauseFunc) streams.Options {
	ex := h.ex
	o := streams.Options{
		Host: h, Writer: ex.w, Cancel: cancel, Limit: streams.MaxFrames, WriteTimeout: ex.g.writeTimeout,
		Bodies: ex.g.bodies, Caller: bodies.Caller{Who: &ex.who.Principal, Known: ex.live.callers.Known(&ex.who), Open: ex.live.callers.Open()},
	}
	switch subscriptions := &ex.live.cfg.Subscriptions; {
	case ex.msg.Method == mcp.MethodListen:
		o.Limit, o.Idle = subscriptions.MaxFrames, subscriptions.IdleTimeout
	case ex.r.Method == http.MethodGet:
		o.Limit = subscriptions.MaxFrames // it lasts as long as a session
	}
	return o
}

// sources is what the merged stream of a client is merged from.
type sources struct{ ex *exchange }

func (s sources) Listen(ctx context.Context, up *transport.Upstream, at mcp.Session, lastID string) (*upstream.Response, error) {
	return s.ex.get(ctx, up, at, lastID)
}

func (s sources) Handler(c *streams.Client, up *transport.Upstream, at mcp.Session) streams.Handler {
	return &frames{ex: s.ex, client: c, up: up, session: at, answers: s.ex.answers()}
}

func (s sources) Failed(up *transport.Upstream, cause upstream.Cause) {
	s.ex.g.failures.Report(s.ex.failureOf(up, cause))
}

func (s sources) Sessions(ctx context.Context) map[string]mcp.Session {
	return s.ex.g.sessions.State.Upstream.All(ctx, s.ex.session.Handle.ID)
}

func (s sources) Ended(ctx context.Context) bool {
	return s.ex.g.sessions.State.Upstream.Ended(ctx, s.ex.session.Handle.ID)
}

// note takes over what has passed on a stream until now.
func (h streamHost) note(c streams.Counts) {
	ex := h.ex
	ex.rec.Frames = int64(c.Frames)
	ex.rec.ReplacedSurrogates += c.Replaced - ex.streamed.Replaced
	ex.streamed = c
}

// finish ends the stream: when the request has not been answered in it, with
// something in the answer's place.
func (h streamHost) finish(ctx context.Context, c *streams.Client, err error, resumable bool) {
	ex := h.ex
	if ex.audited && !errors.Is(err, streams.ErrAudit) {
		return
	}
	h.note(c.Counts())
	awaited := ex.r.Method == http.MethodPost && ex.msg.Kind == mcp.Request
	ending := streams.Ending{
		Err: err, Cause: context.Cause(ctx), Resumable: resumable, Awaited: awaited && ex.msg.Method != mcp.MethodListen, Listens: awaited && ex.msg.Method == mcp.MethodListen,
		Stopping: errors.Is(context.Cause(ctx), ErrStopping) || ex.stopped(), Left: ex.ctx.Err() != nil,
	}
	refused := ending.Refusal()
	if cause, ok := ending.Failure(&refused); ok {
		ex.g.failures.Report(ex.failureOf(ex.up, cause))
	}
	if refused.Kind != "" {
		ex.rec.ErrorKind = refused.Kind
	}
	ex.unanswered = refused.Code == 0
	switch ending.Last(&refused) {
	case streams.LastNothing:
		_ = ex.account(http.StatusOK, ex.streamed.Sent) // a failure is in the log
		return
	case streams.LastComplete:
		ex.rec.ResultType = mcp.ResultComplete
		ex.own = mcp.AppendListenEnd(ex.own[:0], ex.msg.ID)
	case streams.LastError:
		ex.rec.IsError = true
		ex.own = refused.AppendEvent(ex.own[:0], replyOf(ex, ex.msg.ID))
	}
	if ex.account(http.StatusOK, ex.streamed.Sent+len(ex.own)) != nil {
		// What cannot be recorded is not told; that it cannot is.
		ex.own = refusal.Audit.AppendEvent(ex.own[:0], replyOf(ex, ex.msg.ID))
	}
	c.Last(ex.own)
}

// ErrStopping is the cause with which the server cancels the requests that are still
// in flight when shutdown.grace is over, and the gateway the streams that it ends
// before that. A request whose context ends without it was left by its client.
var ErrStopping = fmt.Errorf("the gateway is stopping: %w", context.Canceled)

// EndStreams ends the streams that last as long as their clients: the standalone
// ones of GET, and those of subscriptions/listen. The server calls it at a stop,
// once it accepts no new connections; streams that begin later end at once.
func (g *Gateway) EndStreams() { g.endStreams() }

// endsAtStop makes the context of the exchange end with EndStreams. The function
// releases what that needs.
func (ex *exchange) endsAtStop() (release func()) {
	ctx, cancel := context.WithCancelCause(ex.ctx)
	stop := context.AfterFunc(ex.g.streams, func() { cancel(ErrStopping) })
	ex.ctx = ctx
	return func() {
		stop()
		cancel(nil)
	}
}

// stopped reports whether the request was cut by a stop of the process, and not by
// its client.
func (ex *exchange) stopped() bool {
	return ex.ctx.Err() != nil && errors.Is(context.Cause(ex.ctx), ErrStopping)
}
