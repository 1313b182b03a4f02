// Package streaming responds to a request with an event stream: the stream of one
// upstream, or one merged from all upstreams of the client's session. frames.go
// evaluates and records the frames. Package streams moves the frames; this package
// connects a stream to its request.
package streaming

import (
	"context"
	"errors"
	"net/http"
	"time"

	"svc/gateway/audit"
	"svc/gateway/exchange"
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

// Relay forwards an event stream. After the first byte, every outcome is sent inside it.
func Relay(ex *exchange.Exchange, resp *upstream.Response) *refusal.Refusal {
	if refused := accountOpening(ex); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancelCause(ex.Context)
	defer cancel(nil)
	s := new(relayed)
	s.frames = frames{ex: ex, client: &s.client, up: ex.Upstream, session: ex.Session.There, answers: ex.Answers()}
	s.client.Init(host{ex}.options(cancel))
	s.up.Init(&s.client, &s.frames, tag.Stream{Kind: ex.Session.TagFor(tag.Post), Upstream: ex.Upstream.Name}, ex.FrameOut[:0])
	ex.CopyHeader(resp.Header)
	ex.Began = true
	s.client.Start()
	defer func() { // also after a panic: the watchdog uses the exchange
		s.client.Stop()
		host{ex}.note(s.client.Counts())
	}()
	err := s.up.Copy(ctx, resp)
	ex.FrameOut = s.up.Buffer()
	host{ex}.finish(ctx, &s.client, err, s.up.Resumable())
	return nil
}

// Merge responds to GET with one stream of all upstreams of the session, each resumed.
func Merge(ex *exchange.Exchange, at *tag.Positions) *refusal.Refusal {
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
	ex.Began = true
	m.Run(ex.Upstream, ex.Session.There)
	host{ex}.finish(ctx, &m.Client, context.Cause(ctx), true)
	return nil
}

// accountOpening writes the audit line of the opening of a stream.
func accountOpening(ex *exchange.Exchange) *refusal.Refusal {
	ex.Record.Kind = audit.KindOpen
	ex.Record.Status = http.StatusOK
	ex.Describe()
	err := ex.Write()
	ex.Record.Kind = audit.KindRequest
	if err != nil {
		return &refusal.Audit
	}
	return nil
}

// host is the request whose response is a stream. Its exported methods are called by the
// goroutines of the stream: they only read fields of the exchange that were set before
// the stream began.
type host struct{ ex *exchange.Exchange }

func (h host) Now() time.Time { return h.ex.Now() }

func (h host) CredentialsValid() error {
	return h.ex.Services.Live.Load().Callers.Check(&h.ex.Who)
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
		Bodies: ex.Services.Bodies, Caller: ex.Owner(),
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
type sources struct{ ex *exchange.Exchange }

func (s sources) Listen(ctx context.Context, up *transport.Upstream, at mcp.Session, lastID string) (*upstream.Response, error) {
	return s.ex.Listen(ctx, up, at, lastID)
}

func (s sources) Handler(c *streams.Client, up *transport.Upstream, at mcp.Session) streams.Handler {
	return &frames{ex: s.ex, client: c, up: up, session: at, answers: s.ex.Answers()}
}

func (s sources) Failed(up *transport.Upstream, cause upstream.Cause) {
	s.ex.Services.Failures.Report(s.ex.FailureOf(up, cause))
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
	ex.Record.Frames = int64(c.Frames)
	ex.Record.ReplacedSurrogates += c.Replaced - ex.Streamed.Replaced
	ex.Streamed = c
}

// finish ends the stream, with a replacement for a response that is still missing.
func (h host) finish(ctx context.Context, c *streams.Client, err error, resumable bool) {
	ex := h.ex
	if ex.Audited && !errors.Is(err, streams.ErrAudit) {
		return
	}
	h.note(c.Counts())
	awaited := ex.HTTP.Method == http.MethodPost && ex.Message.Kind == mcp.Request
	ending := streams.Ending{
		Err: err, Cause: context.Cause(ctx), Resumable: resumable, Awaited: awaited && ex.Message.Method != mcp.MethodListen, Listens: awaited && ex.Message.Method == mcp.MethodListen,
		Stopping: errors.Is(context.Cause(ctx), exchange.ErrStopping) || ex.Stopped(), Left: ex.Context.Err() != nil,
	}
	refused := ending.Refusal()
	if cause, ok := ending.Failure(&refused); ok {
		ex.Services.Failures.Report(ex.FailureOf(ex.Upstream, cause))
	}
	if refused.Kind != "" {
		ex.Record.ErrorKind = refused.Kind
	}
	ex.Unanswered = refused.Code == 0
	switch ending.Last(&refused) {
	case streams.LastNothing:
		_ = ex.Account(http.StatusOK, ex.Streamed.Sent) // a failure is logged
		return
	case streams.LastComplete:
		ex.Record.ResultType = mcp.ResultComplete
		ex.Own = mcp.AppendListenEnd(ex.Own[:0], ex.Message.ID)
	case streams.LastError:
		ex.Record.IsError = true
		ex.Own = refused.AppendEvent(ex.Own[:0], ex.ReplyOf(ex.Message.ID))
	}
	if ex.Account(http.StatusOK, ex.Streamed.Sent+len(ex.Own)) != nil {
		// Without an audit line the response is withheld, and the client gets the error.
		ex.Own = refusal.Audit.AppendEvent(ex.Own[:0], ex.ReplyOf(ex.Message.ID))
	}
	c.Last(ex.Own)
}
