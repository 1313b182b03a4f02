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
	"svc/gateway/session"
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
	ended     bool
	timer     *time.Timer
}

// source is one upstream's side of a stream.
type source struct {
	*stream
	up      *target
	session session.Opened // at that upstream
	body    io.ReadCloser
	// tag says that ids are rewritten to name their upstream; 0 leaves them.
	tag idTag
	at  *positions // of a merged stream

	out []byte
	msg mcp.Message
	// resumable is set once an event carried an id: a client whose stream ends
	// early comes back for the rest, so its end is no error. lastID is that id.
	resumable bool
	lastID    []byte
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
	s := ex.newStream(cancel)
	src := &source{stream: s, up: ex.up, session: ex.upSession, body: resp.Body, tag: ex.tagFor(tagPost), out: ex.frameOut[:0]}
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

// Read hands the upstream's bytes to the event reader. What was written before
// is flushed first: nothing waits while its source waits.
func (src *source) Read(p []byte) (int, error) {
	src.mu.Lock()
	if src.unflushed {
		src.flush()
	}
	src.mu.Unlock()
	return src.body.Read(p)
}

// copy judges and passes on what the source sends, until it ends.
func (src *source) copy() error {
	events := mcp.NewEventReader(src, mcp.MaxEvent)
	for {
		ev, err := events.Next()
		if err != nil {
			return err
		}
		if ev.IsComment {
			continue // not a frame: the gateway keeps the stream alive itself
		}
		if ev.HasID && len(ev.ID) > 0 {
			src.resumable = true
			src.lastID = append(src.lastID[:0], ev.ID...)
			ev.ID = src.tagEvent(ev.ID)
		}
		if len(ev.Data) == 0 {
			// It carries an id or a retry time, which the client resumes by.
			src.out = mcp.AppendEvent(src.out[:0], ev)
			if err := src.send(src.out, false); err != nil {
				return err
			}
			continue
		}
		if err := src.permitted(); err != nil {
			return err
		}
		if err := src.frame(&ev); err != nil {
			return err
		}
	}
}

// errTruncated ends a stream with more frames than one may have.
var errTruncated = errors.New("too many frames")

// frame judges one frame and passes it on, or what stands in its place.
func (src *source) frame(ev *mcp.Event) error {
	ex, m := src.ex, &src.msg
	if !src.count() {
		return errTruncated
	}
	if err := mcp.Scan(ev.Data, m); err != nil {
		return errInvalidFrame
	}
	live := ex.g.live.Load()
	j := ex.judge(live, m)
	src.note(live, &j)
	if j.refused != nil {
		return src.refuse(ev, &j)
	}
	final := m.Kind == mcp.Response && ex.r.Method == http.MethodPost
	if final {
		ex.note(&j, m)
	}
	out := *ev
	out.Data = src.tagMessage(m, ex.offered(m))
	src.out = mcp.AppendEvent(src.out[:0], out)
	if final {
		// The line of the request stands in the file before the client can have
		// read the answer to the end.
		if err := ex.account(http.StatusOK, ex.sent+len(src.out)); err != nil {
			return errAudit
		}
	}
	return src.send(src.out, true)
}

// count counts a frame; false is one too many.
func (s *stream) count() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames++
	s.ex.rec.Frames = int64(s.frames)
	return s.frames <= s.limit
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
func (src *source) refuse(ev *mcp.Event, j *judgement) error {
	switch m := &src.msg; m.Kind {
	case mcp.Response:
		if src.ex.r.Method == http.MethodPost {
			src.ex.note(j, m)
			return errDenied
		}
	case mcp.Request:
		src.rejectRequest(m)
	}
	if !ev.HasID {
		return nil
	}
	src.out = mcp.AppendEvent(src.out[:0], mcp.Event{ID: ev.ID, HasID: true})
	return src.send(src.out, false)
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
	_ = s.control.SetWriteDeadline(now.Add(writeTimeout))
	n, err := s.ex.w.Write(event)
	s.ex.sent += n
	return err
}

// flush sends what was written. The caller holds mu.
func (s *stream) flush() {
	s.unflushed = false
	_ = s.control.Flush() // a broken connection shows in the next write
}

// start sends the header and arms the watchdog.
func (s *stream) start() {
	h := s.ex.w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"}
	s.ex.w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.ex.g.now()
	s.lastWrite, s.lastFrame = now, now
	s.flush()
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
			_ = s.control.SetWriteDeadline(now.Add(writeTimeout))
			if _, err := io.WriteString(s.ex.w, ": keepalive\n\n"); err != nil {
				s.cancel(err)
				return
			}
			s.lastWrite = now
			s.flush()
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
	_ = s.control.SetWriteDeadline(time.Time{})
}

// finish ends the stream: when the request has not been answered in it, with
// an error in the answer's place.
func (s *stream) finish(ctx context.Context, err error, resumable bool) {
	ex := s.ex
	if ex.audited {
		return
	}
	refused := s.ending(ctx, err, resumable)
	if refused.action != "" {
		ex.rec.Action = refused.action
	}
	if refused.kind != "" {
		ex.rec.ErrorKind = refused.kind
	}
	tell := ex.r.Method == http.MethodPost && ex.msg.Kind == mcp.Request && ex.ctx.Err() == nil
	var out []byte
	if tell {
		out = mcp.AppendErrorEvent(ex.frameOut[:0], &mcp.ErrorBody{
			ID: ex.msg.ID, Code: refused.code, Message: refused.message,
			Reason: refused.reason, RequestID: ex.rec.RequestID,
		})
		ex.rec.IsError = true
	}
	if ex.account(http.StatusOK, ex.sent+len(out)) != nil && tell {
		return // without its line no answer
	}
	if tell {
		if s.send(out, false) == nil {
			s.mu.Lock()
			s.flush()
			s.mu.Unlock()
		}
	}
}

// ending says why the stream ended before the request was answered.
func (s *stream) ending(ctx context.Context, err error, resumable bool) refusal {
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
		if s.ex.r.Method != http.MethodPost || s.listen || s.ex.msg.Kind != mcp.Request || resumable {
			return refusal{}
		}
		return refuseEnded
	case errors.Is(err, upstream.ErrTimeout):
		return refuseTimeout
	default:
		return refuseUnreachable
	}
}

// note writes the line of a frame: of each that a rule matched, of each of a
// listen stream, and of all where audit.frames says so.
func (src *source) note(l *live, j *judgement) {
	if j.action == "" && !src.listen && l.cfg.Audit.Frames != audit.FramesAll {
		return
	}
	ex, m := src.ex, &src.msg
	rec := audit.Record{
		Kind: audit.KindFrame, Time: ex.g.now(), RequestID: ex.rec.RequestID, TraceID: ex.rec.TraceID,
		Action: j.action, RuleID: j.rule, ErrorKind: j.kind, RPC: m.Kind.String(), Method: m.Method,
		Direction: "server_to_client", ResultType: m.ResultType, IsError: m.IsError || m.ToolError,
		Upstream: src.up.name, Principal: ex.rec.Principal, PrincipalKind: ex.rec.PrincipalKind,
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
