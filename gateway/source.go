package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"svc/gateway/audit"
	"svc/gateway/bodies"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/tag"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// Why a source ends before its upstream ended it.
var (
	errTruncated    = errors.New("too many frames")
	errInvalidFrame = errors.New("frame is not a message")
	errAudit        = errors.New("audit line was not written")
	errDenied       = errors.New("the answer was denied")
)

// source is one upstream's side of a stream.
type source struct {
	*stream
	up      *transport.Upstream
	session session.UpstreamSession // at that upstream
	body    io.ReadCloser
	// tags says whether ids are rewritten to name their upstream.
	tags tag.Stream

	out []byte
	msg mcp.Message
	// final is set when msg is the answer to the request.
	final bool
	// resumable is set once an event carried an id: a client whose stream ends
	// early comes back for the rest, so its end is no error. lastID is that id.
	resumable bool
	lastID    []byte

	bytes   bodies.Share // of the event that is read
	counted bodies.CountedReader
}

// take makes an answer the one that the source reads. What was written is sent
// before more of it is waited for: nothing waits while its source waits.
func (src *source) take(resp *upstream.Response) {
	src.body = resp.Body
	src.ex.countBytes(&src.bytes)
	src.counted = bodies.CountedReader{Reader: resp.Body, Share: &src.bytes}
	resp.BeforeWait(src.settle)
}

// copy judges and passes on what the source sends, until it ends.
func (src *source) copy() error {
	events := mcp.NewEventReader(&src.counted, mcp.MaxEvent)
	defer src.bytes.End()
	for {
		src.bytes.Keep(events.Unread())
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
			ev.ID = src.tags.Event(ev.ID)
		}
		if err := src.permitted(); err != nil {
			return err
		}
		if len(ev.Data) == 0 {
			// It carries an id or a retry time, which the client resumes by.
			src.out = mcp.AppendEvent(src.out[:0], ev)
			err = src.send(src.out)
		} else {
			err = src.frame(&ev)
		}
		if err != nil {
			return err
		}
		if cap(src.out) > keepBuffer {
			src.out = nil
		}
	}
}

// frame judges one frame and passes it on, or what stands in its place.
func (src *source) frame(ev *mcp.Event) error {
	ex, m := src.ex, &src.msg
	if !src.count() {
		return errTruncated
	}
	replaced, err := mcp.ScanReplacing(ev.Data, m)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidFrame, err)
	}
	if replaced > 0 {
		src.countReplaced(replaced)
	}
	live := ex.g.live.Load()
	src.final = ex.answeredBy(m)
	j := src.judgeFrame(live, m)
	if err := src.record(live, &j, replaced); err != nil {
		return err
	}
	if src.final {
		ex.noteAnswer(&j, m)
	}
	if j.Refused != nil {
		return src.refuse(ev)
	}
	out := *ev
	out.Data = src.tags.Message(m, ex.passOn(&j, m, src.up, src.final))
	src.out = mcp.AppendEvent(src.out[:0], out)
	if src.final {
		// The line of the request stands in the file before the client can have
		// read the answer to the end.
		if err := ex.account(http.StatusOK, ex.sent+len(src.out)); err != nil {
			return errAudit
		}
	}
	return src.send(src.out)
}

// count counts a frame that arrived, whatever becomes of it; false is one too
// many.
func (s *stream) count() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames++
	s.lastFrame = s.ex.now()
	s.ex.rec.Frames = int64(s.frames)
	return s.frames <= s.limit
}

// countReplaced counts the lone surrogates that were replaced in a frame: the line
// of the request has those of all its frames.
func (s *stream) countReplaced(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ex.rec.ReplacedSurrogates += n
}

// refuse keeps a frame from the client. A notification is dropped in silence,
// its event id kept so that the client resumes behind it. A request of the
// server is dropped, and the upstream told, or its call would wait for ever. The
// answer itself becomes an error, and the stream ends; an answer that is
// delivered on a resumed stream becomes an error there. Silence would leave the
// client waiting for its time-out.
func (src *source) refuse(ev *mcp.Event) error {
	m := &src.msg
	out := mcp.Event{ID: ev.ID, HasID: ev.HasID, HasData: true}
	switch {
	case src.final:
		return errDenied
	case m.Kind == mcp.Response && len(m.ID) > 0:
		out.Data = mcp.AppendError(nil, m.ID, mcp.CodePolicyDenied, mcp.MessagePolicyDenied, refusal.Policy.Reason, src.ex.rec.RequestID)
	case m.Kind == mcp.Request:
		src.rejectRequest(m)
	}
	if !ev.HasID && len(out.Data) == 0 {
		return nil
	}
	src.out = mcp.AppendEvent(src.out[:0], out)
	return src.send(src.out)
}

// record writes the line of a frame: of each that a rule matched, of each of a
// listen stream, and of all where audit.frames says so. A frame whose line
// cannot be written does not go on.
func (src *source) record(l *live, j *verdict.Result, replaced int) error {
	if j.Action == "" && !src.listen && l.cfg.Audit.Frames != audit.FramesAll {
		return nil
	}
	ex, m := src.ex, &src.msg
	rec := audit.Record{
		Kind: audit.KindFrame, Time: ex.g.now(), RPC: m.Kind.String(), Direction: directionDown,
		BytesOut: int64(len(m.Body)), ReplacedSurrogates: replaced, SubscriptionID: m.SubscriptionID,
	}
	ex.fillRecord(&rec, m, src.up)
	j.NoteAnswer(&rec, policy.Allow, m)
	if rec.Action == "" {
		rec.Action = audit.ActionAllow
	}
	if err := ex.g.audit.Write(ex.ctx, &rec); err != nil {
		ex.g.log.Error("audit line of a frame was not written", "request_id", rec.RequestID, "error", err)
		return fmt.Errorf("%w: %w", errAudit, err)
	}
	return nil
}

// directionDown is the direction of a frame in its audit line.
const directionDown = "server_to_client"
