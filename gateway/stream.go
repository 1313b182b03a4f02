package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// maxFrames bounds an ordinary event stream (gateway specification, Limits).
const maxFrames = 10_000

// writeTimeout bounds one write to a client that reads slowly. Back-pressure
// reaches the upstream long before.
const writeTimeout = 60 * time.Second

// Why the gateway itself ends a stream.
var (
	errIdle    = errors.New("no frame arrived in time")
	errRevoked = errors.New("the caller's key is no longer good")
)

// stream copies the events of an upstream to the client. Each frame is judged
// by the snapshot of its moment; what may pass goes on byte for byte in framing
// of our own, and is flushed before the stream waits for more.
//
// A watchdog shares the connection with the copying loop: it keeps a silent
// stream alive with comments, and cuts one that is idle for too long or whose
// caller is no longer let in. mu keeps the two apart.
type stream struct {
	ex     *exchange
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	flush  *http.ResponseController
	listen bool
	idle   time.Duration // longest silence between frames; 0 for ever

	frames int
	out    []byte
	// resumable is set once an event carried an id: a client whose stream ends
	// early comes back for the rest, so its end is no error.
	resumable bool

	mu        sync.Mutex // guards what follows, and the client's connection
	unflushed bool
	lastWrite time.Time
	lastFrame time.Time
	ended     bool
	timer     *time.Timer
}

// relayStream passes an event stream on. From the first byte to the client on,
// every outcome is told inside the stream.
func (ex *exchange) relayStream(resp *upstream.Response) *refusal {
	ex.rec.Kind = audit.KindOpen
	ex.rec.Status = http.StatusOK
	ex.describe()
	if err := ex.write(); err != nil {
		return &refuseAudit
	}
	ex.rec.Kind = audit.KindRequest

	ctx, cancel := context.WithCancelCause(ex.ctx)
	defer cancel(nil)
	s := &stream{
		ex: ex, body: resp.Body, cancel: cancel,
		flush:  http.NewResponseController(ex.w),
		listen: ex.msg.Method == mcp.MethodListen,
		out:    ex.frameOut[:0],
	}
	if s.listen {
		s.idle = ex.live.cfg.Subscriptions.IdleTimeout
	}
	// Closing the body ends a read that waits, whoever gives up.
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	defer stop()

	ex.copyHeader(resp.Header)
	h := ex.w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"}
	ex.w.WriteHeader(http.StatusOK)
	s.start()
	defer s.stop()

	err := s.copy(ctx)
	ex.frameOut = s.out
	s.finish(ctx, err)
	return nil
}

// Read hands the upstream's bytes to the event reader. What was written before
// is flushed first: nothing waits while the stream waits.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.unflushed {
		s.flushLocked()
	}
	s.mu.Unlock()
	return s.body.Read(p)
}

func (s *stream) copy(ctx context.Context) error {
	events := mcp.NewEventReader(s, mcp.MaxBody)
	limit := maxFrames
	if s.listen {
		limit = s.ex.live.cfg.Subscriptions.MaxFrames
	}
	var m mcp.Message
	for {
		ev, err := events.Next()
		if err != nil {
			return err
		}
		if ev.IsComment {
			continue // not a frame: the gateway keeps the stream alive itself
		}
		if ev.HasID && len(ev.ID) > 0 {
			s.resumable = true
		}
		if len(ev.Data) == 0 {
			// It carries an id or a retry time, which the client resumes by.
			s.out = mcp.AppendEvent(s.out[:0], ev)
			if err := s.send(s.out, false); err != nil {
				return err
			}
			continue
		}
		if s.frames++; s.frames > limit {
			return errTruncated
		}
		if err := s.permitted(); err != nil {
			return err
		}
		if err := s.frame(&ev, &m); err != nil {
			return err
		}
	}
}

// errTruncated ends a stream with more frames than one may have.
var errTruncated = errors.New("too many frames")

// frame judges one frame and passes it on, or what stands in its place.
func (s *stream) frame(ev *mcp.Event, m *mcp.Message) error {
	ex := s.ex
	ex.rec.Frames++
	if err := mcp.Scan(ev.Data, m); err != nil {
		return errInvalidFrame
	}
	live := ex.g.live.Load()
	j := ex.judge(live, m)
	ex.noteFrame(s, live, &j, m)
	if j.refused != nil {
		return s.refuse(ev, m, &j)
	}
	final := m.Kind == mcp.Response && ex.r.Method == http.MethodPost
	if final {
		ex.note(&j, m)
	}
	out := *ev
	out.Data = ex.offered(m)
	s.out = mcp.AppendEvent(s.out[:0], out)
	if final {
		// The line of the request stands in the file before the client can have
		// read the answer to the end.
		if err := ex.account(http.StatusOK, ex.sent+len(s.out)); err != nil {
			return errAudit
		}
	}
	return s.send(s.out, true)
}

var (
	errInvalidFrame = errors.New("frame is not a message")
	errAudit        = errors.New("audit line was not written")
	errDenied       = errors.New("the answer was denied")
)

// refuse keeps a frame from the client. A notification is dropped in silence,
// its event id kept so that the client resumes behind it. A request of the
// server is dropped, and the upstream told, or its call would wait for ever. The
// answer itself becomes an error, and the stream ends: silence would leave the
// client waiting for its time-out.
func (s *stream) refuse(ev *mcp.Event, m *mcp.Message, j *judgement) error {
	switch m.Kind {
	case mcp.Response:
		if s.ex.r.Method == http.MethodPost {
			s.ex.note(j, m)
			return errDenied
		}
	case mcp.Request:
		s.ex.rejectServerRequest(m)
	}
	if !ev.HasID {
		return nil
	}
	s.out = mcp.AppendEvent(s.out[:0], mcp.Event{ID: ev.ID, HasID: true})
	return s.send(s.out, false)
}

// permitted checks that the caller is still let in by the snapshot of now.
func (s *stream) permitted() error {
	ex := s.ex
	if ex.key == nil {
		return nil
	}
	live := ex.g.live.Load()
	if live.keyring == nil {
		return nil
	}
	if err := live.keyring.Check(ex.key); err != nil {
		return errRevoked
	}
	return nil
}

// send writes one event. It reaches the client at the latest when the stream
// waits for the upstream again.
func (s *stream) send(event []byte, frame bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.ex.g.now()
	if frame {
		s.lastFrame = now
	}
	s.lastWrite = now
	s.unflushed = true
	_ = s.flush.SetWriteDeadline(now.Add(writeTimeout))
	n, err := s.ex.w.Write(event)
	s.ex.sent += n
	return err
}

func (s *stream) flushLocked() {
	s.unflushed = false
	_ = s.flush.Flush() // a broken connection shows in the next write
}

// start flushes the header and arms the watchdog.
func (s *stream) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.ex.g.now()
	s.lastWrite, s.lastFrame = now, now
	s.flushLocked()
	if period := s.period(); period > 0 {
		s.timer = time.AfterFunc(period, s.watch)
	}
}

// period is how often the watchdog looks.
func (s *stream) period() time.Duration {
	period := s.ex.live.cfg.SSEKeepalive
	if s.idle > 0 && (period == 0 || s.idle < period) {
		period = s.idle
	}
	if period == 0 && s.ex.key != nil {
		period = 15 * time.Second
	}
	return period
}

// watch is the watchdog. It runs on the timer's goroutine.
func (s *stream) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if err := s.permitted(); err != nil {
		s.cancel(err)
		return
	}
	now := s.ex.g.now()
	if s.idle > 0 && now.Sub(s.lastFrame) >= s.idle {
		s.cancel(errIdle)
		return
	}
	next := s.period()
	if alive := s.ex.live.cfg.SSEKeepalive; alive > 0 {
		if silent := now.Sub(s.lastWrite); silent >= alive {
			_ = s.flush.SetWriteDeadline(now.Add(writeTimeout))
			if _, err := io.WriteString(s.ex.w, ": keepalive\n\n"); err != nil {
				s.cancel(err)
				return
			}
			s.lastWrite = now
			s.flushLocked()
		} else {
			next = min(next, alive-silent)
		}
	}
	if s.idle > 0 {
		next = min(next, s.idle-now.Sub(s.lastFrame))
	}
	s.timer.Reset(max(next, time.Millisecond))
}

func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	_ = s.flush.SetWriteDeadline(time.Time{})
}

// finish ends the stream: when the request has not been answered in it, with
// an error in the answer's place.
func (s *stream) finish(ctx context.Context, err error) {
	ex := s.ex
	if ex.audited {
		return
	}
	refused := s.ending(ctx, err)
	if refused.action != "" {
		ex.rec.Action = refused.action
	}
	if refused.kind != "" {
		ex.rec.ErrorKind = refused.kind
	}
	tell := ex.r.Method == http.MethodPost && ex.msg.Kind == mcp.Request && ex.ctx.Err() == nil
	s.out = s.out[:0]
	if tell {
		s.out = mcp.AppendErrorEvent(s.out, &mcp.ErrorBody{
			ID: ex.msg.ID, Code: refused.code, Message: refused.message,
			Reason: refused.reason, RequestID: ex.rec.RequestID,
		})
		ex.rec.IsError = true
	}
	if ex.account(http.StatusOK, ex.sent+len(s.out)) != nil && tell {
		return // without its line no answer
	}
	if tell {
		if s.send(s.out, false) == nil {
			s.mu.Lock()
			s.flushLocked()
			s.mu.Unlock()
		}
	}
}

// ending says why the stream ended before the request was answered.
func (s *stream) ending(ctx context.Context, err error) refusal {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errIdle):
		return refuseTruncated
	case errors.Is(cause, errRevoked), errors.Is(err, errRevoked):
		return refuseRevoked
	case s.ex.ctx.Err() != nil:
		return refuseClientClosed
	case errors.Is(err, errDenied):
		return refusePolicy
	case errors.Is(err, errTruncated):
		return refuseTruncated
	case errors.Is(err, errInvalidFrame), errors.Is(err, mcp.ErrEventTooLarge):
		return refuseUpstreamInvalid
	case errors.Is(err, errAudit):
		return refuseAudit
	case errors.Is(err, io.EOF):
		if s.ex.r.Method != http.MethodPost || s.listen || s.ex.msg.Kind != mcp.Request || s.resumable {
			return refusal{}
		}
		return refuseEnded
	case errors.Is(err, upstream.ErrTimeout):
		return refuseTimeout
	default:
		return refuseUnreachable
	}
}

// noteFrame writes the line of a frame: of each that a rule matched, of each of
// a listen stream, and of all where audit.frames says so.
func (ex *exchange) noteFrame(s *stream, l *live, j *judgement, m *mcp.Message) {
	if j.rule == "" && j.action == "" && !s.listen && l.cfg.Audit.Frames != audit.FramesAll {
		return
	}
	rec := audit.Record{
		Kind: audit.KindFrame, Time: ex.g.now(), RequestID: ex.rec.RequestID, TraceID: ex.rec.TraceID,
		Action: j.action, RuleID: j.rule, ErrorKind: j.kind, RPC: m.Kind.String(), Method: m.Method,
		Direction: "server_to_client", ResultType: m.ResultType, IsError: m.IsError || m.ToolError,
		Upstream: ex.rec.Upstream, Principal: ex.rec.Principal, PrincipalKind: ex.rec.PrincipalKind,
		KeyID: ex.rec.KeyID, ClientIP: ex.rec.ClientIP, Dialect: ex.rec.Dialect,
		BytesOut: int64(len(m.Body)), Stripped: j.stripped, SubscriptionID: m.SubscriptionID,
	}
	if rec.Action == "" {
		rec.Action = actionAllow
	}
	if err := ex.g.audit.Write(context.WithoutCancel(ex.ctx), &rec); err != nil {
		ex.g.log.Error("audit line of a frame was not written", "request_id", rec.RequestID, "error", err)
	}
}
