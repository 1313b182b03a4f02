package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"svc/gateway/audit"
	"svc/gateway/bodies"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/tag"
	"svc/gateway/upstream"
)

const (
	// maxFrames bounds an ordinary event stream (gateway specification, Limits).
	maxFrames = 10_000
	// defaultWriteTimeout bounds one write to a client that reads slowly. Back-pressure
	// reaches the upstream long before. It is set anew at most once in
	// writeTimeoutStep, not for each frame.
	defaultWriteTimeout = 60 * time.Second
	writeTimeoutStep    = time.Second
	// checkEvery is how long a silent stream may go on after its caller's key
	// ceased to be good. No frame passes meanwhile.
	checkEvery = 15 * time.Second
)

// Why the gateway itself ends a stream.
var (
	errIdle     = errors.New("no frame arrived in time")
	errRevoked  = errors.New("the caller is no longer let in")
	errReplaced = errors.New("the client opened its stream again")
	errEnded    = errors.New("the client ended its session")
	errPanic    = errors.New("panic")
)

// errTokenRevoked is an errRevoked: the bearer token has expired, lacks a scope
// that is required now, or its issuer has withdrawn the key that signed it.
var errTokenRevoked = fmt.Errorf("%w: its token is no longer good", errRevoked)

// stream is the client's side of an event stream: where the frames of one or
// more sources go. Each frame is judged by the snapshot of its moment; what may
// pass goes on byte for byte in framing of our own, and is flushed before its
// source waits for more.
//
// A watchdog shares the connection with the sources: it keeps a silent stream
// alive with comments, and cuts one that is idle for too long or whose caller
// is no longer let in. mu keeps them apart.
type stream struct {
	ex      *exchange
	cancel  context.CancelCauseFunc
	control *http.ResponseController
	listen  bool
	limit   int           // frames
	idle    time.Duration // longest silence between frames; 0 for ever

	mu        sync.Mutex // guards what follows, and the client's connection
	unflushed bool
	frames    int
	lastWrite time.Time
	lastFrame time.Time
	deadline  time.Time // when the write deadline was set
	ended     bool
	timer     *time.Timer
}

// relayStream passes an event stream on. From the first byte to the client on,
// every outcome is told inside the stream.
func (ex *exchange) relayStream(resp *upstream.Response) *refusal.Refusal {
	if refused := ex.accountOpening(); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancelCause(ex.ctx)
	defer cancel(nil)
	s := ex.newStream(cancel)
	src := &source{stream: s, up: ex.up, session: ex.upSession, tags: tag.Stream{Kind: ex.tagFor(tag.Post), Upstream: ex.up.Name}, out: ex.frameOut[:0]}
	src.take(resp)
	// Closing the body ends a read that waits, whoever gives up.
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	defer stop()

	ex.copyHeader(resp.Header)
	s.start()
	defer s.stop()
	err := src.copy()
	ex.frameOut = src.out
	s.finish(ctx, err, src.resumable)
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

func (ex *exchange) newStream(cancel context.CancelCauseFunc) *stream {
	s := &stream{
		ex: ex, cancel: cancel,
		control: http.NewResponseController(ex.w),
		listen:  ex.msg.Method == mcp.MethodListen,
		limit:   maxFrames,
	}
	switch {
	case s.listen:
		s.limit, s.idle = ex.live.cfg.Subscriptions.MaxFrames, ex.live.cfg.Subscriptions.IdleTimeout
	case ex.r.Method == http.MethodGet:
		s.limit = ex.live.cfg.Subscriptions.MaxFrames // it lasts as long as a session
	}
	return s
}

// permitted checks that the caller is still let in by the snapshot of now: its
// key or token is still good, and where it came without one none is asked for.
func (s *stream) permitted() error {
	return s.ex.g.live.Load().accepts(s.ex.key, s.ex.token)
}

// send writes one event. It reaches the client at the latest when the stream
// waits for the upstream again.
func (s *stream) send(event []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.ex.now()
	s.lastWrite = now
	s.unflushed = true
	n, err := s.write(now, event)
	s.ex.sent += n
	return err
}

// write writes to the client, for at most about the write time-out. The caller holds
// mu.
func (s *stream) write(now time.Time, p []byte) (int, error) {
	if now.Sub(s.deadline) >= writeTimeoutStep {
		s.deadline = now
		_ = s.control.SetWriteDeadline(time.Now().Add(s.ex.g.writeTimeout))
	}
	return s.ex.w.Write(p)
}

// flush sends what was written. The caller holds mu.
func (s *stream) flush() {
	s.unflushed = false
	_ = s.control.Flush() // a broken connection shows in the next write
}

// settle sends what was written: the client does not wait for a frame because a
// guardrail is asked about the next.
func (s *stream) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unflushed {
		s.flush()
	}
}

// start writes the header and arms the watchdog. The header goes out with the
// first frame when that is there already, else before the stream waits for it.
func (s *stream) start() {
	h := s.ex.w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"}
	s.ex.began = true
	s.ex.w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.ex.now()
	s.lastWrite, s.lastFrame = now, now
	s.unflushed = true
	s.timer = time.AfterFunc(s.next(now), s.watch)
}

// next is how long the watchdog may sleep. The caller holds mu.
func (s *stream) next(now time.Time) time.Duration {
	next := checkEvery
	if alive := s.keepalive(); alive > 0 {
		next = min(next, alive-now.Sub(s.lastWrite))
	}
	if s.idle > 0 {
		next = min(next, s.idle-now.Sub(s.lastFrame))
	}
	return max(next, time.Millisecond)
}

// keepalive is how long the stream may be silent, by the configuration of now.
func (s *stream) keepalive() time.Duration { return s.ex.g.live.Load().cfg.SSEKeepalive }

// watch is the watchdog. It runs on the timer's goroutine.
func (s *stream) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return // the exchange may be another request's by now
	}
	defer s.ex.g.contain("watchdog of a stream", func() { s.cancel(errPanic) })
	if err := s.permitted(); err != nil {
		s.cancel(err)
		return
	}
	now := s.ex.now()
	if s.idle > 0 && now.Sub(s.lastFrame) >= s.idle {
		s.cancel(errIdle)
		return
	}
	if alive := s.keepalive(); alive > 0 && now.Sub(s.lastWrite) >= alive {
		if _, err := s.write(now, []byte(": keepalive\n\n")); err != nil {
			s.cancel(err)
			return
		}
		s.lastWrite = now
		s.flush()
	}
	s.timer.Reset(s.next(now))
}

func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	_ = s.control.SetWriteDeadline(time.Time{})
}

// finish ends the stream: when the request has not been answered in it, with
// something in the answer's place.
func (s *stream) finish(ctx context.Context, err error, resumable bool) {
	ex := s.ex
	unrecorded := errors.Is(err, errAudit)
	if ex.audited && !unrecorded {
		return
	}
	refused := s.ending(ctx, err, resumable)
	if cause, ok := streamFailure(&refused, err); ok {
		ex.g.failures.Report(ex.failureOf(ex.up, cause))
	}
	if refused.Kind != "" {
		ex.rec.ErrorKind = refused.Kind
	}
	ex.unanswered = refused.Code == 0
	if refused.Code == 0 || ex.r.Method != http.MethodPost || ex.msg.Kind != mcp.Request || ex.ctx.Err() != nil && !ex.stopped() {
		_ = ex.account(http.StatusOK, ex.sent) // there is nothing to tell; a failure is in the log
		return
	}
	out := s.lastEvent(&refused)
	if ex.account(http.StatusOK, ex.sent+len(out)) != nil {
		// What cannot be recorded is not told; that it cannot is.
		out = s.errorEvent(&refusal.Audit)
	}
	if s.send(out) == nil {
		s.mu.Lock()
		s.flush()
		s.mu.Unlock()
	}
}

// errorEvent is what the client gets in the place of the answer.
func (s *stream) errorEvent(refused *refusal.Refusal) []byte {
	ex := s.ex
	ex.own = mcp.AppendErrorEvent(ex.own[:0], &mcp.ErrorBody{
		ID: ex.msg.ID, Code: refused.Code, Message: refused.Message,
		Reason: refused.Reason, RequestID: ex.rec.RequestID,
		Executed: ex.executed && refused.Kind == refusal.Audit.Kind,
	})
	return ex.own
}

// ending says why the stream ended before the request was answered. A refusal
// without a code is for the audit line alone: the client has left, or comes back
// for the rest of a stream that it can resume.
func (s *stream) ending(ctx context.Context, err error, resumable bool) refusal.Refusal {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrStopping), s.ex.stopped(): // the request's context ends before those derived of it
		return refusal.Shutdown
	case errors.Is(cause, errIdle):
		return refusal.Truncated
	case errors.Is(cause, errTokenRevoked), errors.Is(err, errTokenRevoked):
		return refusal.TokenRevoked
	case errors.Is(cause, errRevoked), errors.Is(err, errRevoked):
		return refusal.Revoked
	case errors.Is(cause, errReplaced):
		return refusal.Replaced
	case errors.Is(cause, errEnded):
		return refusal.SessionEnd
	case errors.Is(cause, errPanic):
		return refusal.Panic
	case s.ex.ctx.Err() != nil:
		return refusal.ClientClosed
	case errors.Is(err, bodies.ErrOverloaded), errors.Is(cause, bodies.ErrOverloaded):
		return refusal.Overloaded
	case errors.Is(err, errDenied):
		return refusal.Answer
	case errors.Is(err, errTruncated), errors.Is(cause, errTruncated):
		return refusal.Truncated
	case errors.Is(err, errInvalidFrame), errors.Is(err, mcp.ErrEventTooLarge):
		return refusal.UpstreamInvalid
	case errors.Is(err, errAudit):
		return refusal.Audit
	case errors.Is(err, io.EOF):
		if s.ex.r.Method != http.MethodPost || s.listen || s.ex.msg.Kind != mcp.Request || resumable {
			return refusal.Refusal{}
		}
		return refusal.Ended
	case errors.Is(err, upstream.ErrTimeout):
		return refusal.Timeout
	case resumable && (errors.Is(err, upstream.ErrUnreachable) || errors.Is(err, io.ErrUnexpectedEOF)):
		return refusal.EndedResumable
	default:
		return refusal.Unreachable
	}
}
