package request

import (
	"context"
	"errors"
	"net/http"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/request/streams"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// relayed is an event stream of one upstream.
type relayed struct {
	client streams.Client
	up     streams.Upstream
	frames frames
}

// relay forwards an event stream. After the first byte, every outcome is sent inside it.
func relay(ex *Exchange, resp *upstream.Response) *refusal.Refusal {
	if refused := ex.labelHeader(resp.Header); refused != nil {
		return refused
	}
	if refused := accountOpening(ex); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancelCause(ex.Context)
	defer cancel(nil)
	s := new(relayed)
	s.frames = frames{ex: ex, client: &s.client, up: ex.route.Upstream, session: ex.Session.There, answers: ex.answers()}
	s.client.Init(host{ex}.options(cancel))
	s.up.Init(&s.client, &s.frames, session.Stream{Kind: ex.Session.TagFor(session.Post), Upstream: ex.route.Upstream.Name}, ex.buffers.FrameOut[:0])
	ex.copyHeader(resp)
	ex.began = true
	s.client.Start()
	defer func() { // also after a panic: the watchdog uses the exchange
		s.client.Stop()
		host{ex}.note(s.client.Counts())
	}()
	err := s.up.Copy(ctx, resp)
	ex.buffers.FrameOut = s.up.Buffer()
	host{ex}.finish(ctx, &s.client, err, s.up.Resumable())
	return nil
}

// merge responds to GET with one stream of all upstreams of the session, each resumed.
func merge(ex *Exchange, at *session.Positions) *refusal.Refusal {
	if refused := accountOpening(ex); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancelCause(ex.Context)
	m := ex.Services.Merged.Open(ctx, streams.MergedOptions{
		Options: host{ex}.options(cancel), Session: ex.Session.Handle.ID, Sources: sources{ex},
		Upstreams: ex.Services.Targets, Positions: at, Replicated: ex.Services.Sessions.Replicated,
	})
	defer func() { // also after a panic: goroutines of the stream use the exchange
		m.Close()
		host{ex}.note(m.Counts())
	}()
	ex.began = true
	m.Run(ex.route.Upstream, ex.Session.There)
	host{ex}.finish(ctx, &m.Client, context.Cause(ctx), true)
	return nil
}

// accountOpening writes the audit line of the opening of a stream. From here on a client that opened
// it to listen waits for nothing.
func accountOpening(ex *Exchange) *refusal.Refusal {
	ex.record.Kind = audit.KindOpen
	if ex.HTTP.Method == http.MethodGet || ex.Message.Method == mcp.MethodListen {
		ex.times.listening = ex.now()
		ex.record.Duration = ex.times.listening.Sub(ex.start)
		ex.buffers.Spans = ex.times.appendSpans(ex.buffers.Spans[:0], ex.times.listening)
		ex.record.Spans = ex.buffers.Spans
	}
	ex.record.Status = http.StatusOK
	ex.describe()
	err := ex.write()
	ex.record.Kind = audit.KindRequest
	if err != nil {
		return &refusal.Audit
	}
	return nil
}

// host is the request whose response is a stream. Its exported methods are called by the
// goroutines of the stream: they only read fields of the exchange that were set before
// the stream began.
type host struct{ ex *Exchange }

func (h host) Now() time.Time { return h.ex.now() }

func (h host) CredentialsValid() error {
	return h.ex.Services.Live.Load().Callers.CheckInSession(&h.ex.caller.id, &h.ex.Session.Handle)
}

func (h host) Keepalive() time.Duration { return h.ex.Services.Live.Load().Config.SSEKeepalive }

func (h host) Panicked(where string, value any, stack []byte) {
	h.ex.Services.Log.Error("panic", "in", where, "panic", value, "stack", string(stack))
}

// options are the options of the client's side of a stream.
func (h host) options(cancel context.CancelCauseFunc) streams.Options {
	ex := h.ex
	o := streams.Options{
		Host: h, Writer: ex.Writer, Cancel: cancel, Limit: streams.MaxFrames, WriteTimeout: ex.Services.WriteTimeout,
		Open: &ex.Services.Streams, Bodies: ex.Services.Bodies, Caller: ex.owner(),
	}
	switch subscriptions := &ex.Live.Config.Subscriptions; {
	case ex.Message.Method == mcp.MethodListen:
		o.Limit, o.Idle = subscriptions.MaxFrames, subscriptions.IdleTimeout
	case ex.HTTP.Method == http.MethodGet:
		o.Limit = subscriptions.MaxFrames // it lasts as long as a session
	}
	return o
}

// sources opens the streams of which the merged stream of a client consists.
type sources struct{ ex *Exchange }

func (s sources) Listen(ctx context.Context, up *upstream.Upstream, at mcp.Session, lastID string) (*upstream.Response, error) {
	return s.ex.listen(ctx, up, at, lastID)
}

func (s sources) Handler(c *streams.Client, up *upstream.Upstream, at mcp.Session) streams.Handler {
	return &frames{ex: s.ex, client: c, up: up, session: at, answers: s.ex.answers()}
}

func (s sources) Failed(up *upstream.Upstream, cause upstream.Cause) {
	s.ex.Services.Failures.Report(s.ex.failureOf(up, cause))
}

func (s sources) Sessions(ctx context.Context) map[string]mcp.Session {
	return s.ex.Services.Sessions.State.Upstream.All(ctx, s.ex.Session.Handle.ID)
}

func (s sources) Ended(ctx context.Context) bool {
	return s.ex.Services.Sessions.State.Upstream.Ended(ctx, s.ex.Session.Handle.ID)
}

// note copies the stream's counts into the exchange.
func (h host) note(c streams.Counts) {
	ex := h.ex
	ex.record.Frames = int64(c.Frames)
	ex.record.ReplacedSurrogates += c.Replaced - ex.streamed.Replaced
	ex.streamed = c
}

// finish ends the stream, with a replacement for a response that is still missing.
func (h host) finish(ctx context.Context, c *streams.Client, err error, resumable bool) {
	ex := h.ex
	if ex.audited && !errors.Is(err, streams.ErrAudit) {
		return
	}
	h.note(c.Counts())
	awaited := ex.HTTP.Method == http.MethodPost && ex.Message.Kind == mcp.Request
	ending := streams.Ending{
		Err: err, Cause: context.Cause(ctx), Resumable: resumable, Awaited: awaited && ex.Message.Method != mcp.MethodListen, Listens: awaited && ex.Message.Method == mcp.MethodListen,
		Stopping: errors.Is(context.Cause(ctx), ErrStopping) || ex.Stopped(), Left: ex.Context.Err() != nil,
	}
	refused := ending.Refusal()
	if cause, ok := ending.Failure(&refused); ok {
		ex.Services.Failures.Report(ex.failureOf(ex.route.Upstream, cause))
	}
	if refused.Kind != "" {
		ex.record.ErrorKind = refused.Kind
	}
	ex.unanswered = refused.Code == 0
	switch ending.Last(&refused) {
	case streams.LastNothing:
		_ = ex.account(http.StatusOK, ex.streamed.Sent) // a failure is logged
		return
	case streams.LastComplete:
		ex.record.ResultType = mcp.ResultComplete
		ex.buffers.Own = mcp.AppendListenEnd(ex.buffers.Own[:0], ex.Message.ID)
	case streams.LastError:
		ex.record.IsError = true
		ex.buffers.Own = refused.AppendEvent(ex.buffers.Own[:0], ex.replyOf(ex.Message.ID))
	}
	if ex.account(http.StatusOK, ex.streamed.Sent+len(ex.buffers.Own)) != nil {
		// Without an audit line the response is withheld, and the client gets the error.
		ex.buffers.Own = refusal.Audit.AppendEvent(ex.buffers.Own[:0], ex.replyOf(ex.Message.ID))
	}
	c.Last(ex.buffers.Own)
}
