package streams

import (
	"errors"
	"io"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// Reasons why the gateway itself ends a stream, as the cause of the stream's context.
var (
	ErrIdle     = errors.New("no frame arrived in time")
	ErrReplaced = errors.New("the client opened its stream again")
	ErrEnded    = errors.New("the client ended its session")
	ErrPanic    = errors.New("panic")
)

// Reasons why an upstream's side ends before the upstream ended it.
var (
	ErrTruncated    = errors.New("too many frames")
	ErrInvalidFrame = errors.New("frame is not a message")
	ErrAudit        = errors.New("audit line was not written")
	ErrDenied       = errors.New("the answer was denied")
)

// DeniedError is an answer that was denied for a reason that its client gets.
type DeniedError struct{ Refused *refusal.Refusal }

func (e *DeniedError) Error() string { return "the answer was denied: " + e.Refused.Reason }

// Ending describes a stream that ended before its request had a response.
type Ending struct {
	// Err is the error of the upstream's side, Cause the reason why the stream's context
	// ended.
	Err, Cause error
	// Stopping is set when the process is stopping, Left when the request's context has
	// ended for another reason.
	Stopping, Left bool
	// Resumable is set if the client can resume the stream.
	Resumable bool
	// Awaited is set if the last frame of the stream is the response to a request,
	// Listens if the gateway itself ends the stream of a listening request, with its
	// result.
	Awaited, Listens bool
}

// Last is the kind of the last event of a stream, instead of the response.
type Last uint8

const (
	LastNothing  Last = iota // no event
	LastComplete             // the result of a listening request
	LastError                // the refusal
)

// Last returns the kind of the last event when the stream ends with a refusal.
func (e *Ending) Last(refused *refusal.Refusal) Last {
	switch {
	case refused.Code == 0, !e.Awaited && !e.Listens, e.Left && !e.Stopping:
		return LastNothing
	case e.Listens && refused.Kind == refusal.Shutdown.Kind:
		return LastComplete
	}
	return LastError
}

// Refusal returns the refusal that is recorded, and sent instead of the response. A
// refusal without a code is only for the audit line: the client has disconnected, or can
// resume the stream.
func (e *Ending) Refusal() refusal.Refusal {
	var denied *DeniedError
	switch {
	case e.Stopping: // the request's context ends before those derived from it
		return refusal.Shutdown
	case errors.Is(e.Cause, ErrIdle):
		return refusal.Truncated
	case errors.Is(e.Cause, auth.ErrTokenRevoked), errors.Is(e.Err, auth.ErrTokenRevoked):
		return refusal.TokenRevoked
	case errors.Is(e.Cause, auth.ErrRevoked), errors.Is(e.Err, auth.ErrRevoked):
		return refusal.Revoked
	case errors.Is(e.Cause, ErrReplaced):
		return refusal.Replaced
	case errors.Is(e.Cause, ErrEnded):
		return refusal.SessionEnd
	case errors.Is(e.Cause, ErrPanic):
		return refusal.Panic
	case e.Left:
		return refusal.ClientClosed
	case errors.Is(e.Err, bodies.ErrOverloaded), errors.Is(e.Cause, bodies.ErrOverloaded):
		return refusal.Overloaded
	case errors.Is(e.Err, ErrDenied):
		return refusal.Answer
	case errors.As(e.Err, &denied):
		return *denied.Refused
	case errors.Is(e.Err, ErrTruncated), errors.Is(e.Cause, ErrTruncated):
		return refusal.Truncated
	case errors.Is(e.Err, ErrInvalidFrame), errors.Is(e.Err, mcp.ErrEventTooLarge):
		return refusal.UpstreamInvalid
	case errors.Is(e.Err, ErrAudit):
		return refusal.Audit
	case errors.Is(e.Err, io.EOF):
		if !e.Awaited || e.Resumable {
			return refusal.Refusal{}
		}
		return refusal.Ended
	case errors.Is(e.Err, upstream.ErrTimeout):
		return refusal.Timeout
	case errors.Is(e.Err, upstream.ErrExited):
		return refusal.UpstreamExited
	case e.Resumable && (errors.Is(e.Err, upstream.ErrUnreachable) || errors.Is(e.Err, io.ErrUnexpectedEOF)):
		return refusal.EndedResumable
	default:
		return refusal.Unreachable
	}
}

// Failure returns the failure of the upstream if it caused the refusal.
func (e *Ending) Failure(refused *refusal.Refusal) (upstream.Cause, bool) {
	switch refused.Kind {
	case refusal.Ended.Kind:
		return upstream.Cause{Code: "stream_ended", Text: "the event stream ended before the answer"}, true
	case refusal.UpstreamInvalid.Kind:
		return invalidFrame(e.Err), true
	case refusal.Timeout.Kind, refusal.Unreachable.Kind, refusal.UpstreamExited.Kind:
		return upstream.CauseOf(e.Err), true
	}
	return upstream.Cause{}, false
}

// maxCause bounds the text of a cause in bytes.
const maxCause = 200

// invalidFrame returns the reason why a frame of an event stream is not forwarded.
func invalidFrame(err error) upstream.Cause {
	return upstream.Cause{Code: "invalid_frame", Text: "the event stream holds an invalid frame: " + upstream.Printable(err.Error(), maxCause)}
}
