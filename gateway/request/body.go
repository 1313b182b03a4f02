package request

import (
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session/bodies"
)

// DrainTimeout bounds the time in which the rest of the body of a refused request is read, for
// its id and by the server, because an unidentified caller may never send it.
const (
	DrainTimeout        = 5 * time.Second
	unknownDrainTimeout = 500 * time.Millisecond
)

// Source is the source of a body.
type Source struct {
	Writer  http.ResponseWriter
	Request *http.Request
	// Share counts the bytes in memory for their caller.
	Share *bodies.Share
}

// Body is the part of a request's body that was read. Initially nothing was read.
type Body struct {
	Bytes []byte
	began bool // it was read, completely or as far as it will be
	ended bool // to its end
}

// Reset prepares b for the body of another request, with the same buffer.
func (b *Body) Reset() { *b = Body{Bytes: b.Bytes[:0]} }

// Message reads the whole body and parses its message into m. replaced is the number of lone
// surrogates that were replaced. When the body is refused, m has the id if it was found.
func (b *Body) Message(s Source, m *mcp.Message) (replaced int, refused *refusal.Refusal) {
	if refused := checkHeader(s.Request.Header); refused != nil {
		return 0, refused
	}
	if refused := b.read(s, mcp.MaxBody, m); refused != nil {
		return 0, refused
	}
	replaced, err := mcp.ScanReplacing(b.Bytes, m)
	if err != nil {
		return 0, refusal.OfMessage(err)
	}
	return replaced, nil
}

// Discard reads the body of a request that needs none, because the server cannot detect a
// disconnected client while a body is unread.
func (b *Body) Discard(s Source, m *mcp.Message) *refusal.Refusal {
	if s.Request.ContentLength == 0 {
		return nil
	}
	return b.read(s, bodies.MaxPrefix, m)
}

// Prefix reads the body of a refused request until its id and kind are found, for m, or the time
// is over. If the client has sent Expect: 100-continue, it reads nothing, because the client then
// sends no body. The error is [bodies.ErrOverloaded].
func (b *Body) Prefix(s Source, m *mcp.Message) error {
	if b.began || len(s.Request.Header["Expect"]) > 0 {
		return nil
	}
	if err := b.readUpTo(s, bodies.MaxPrefix); errors.Is(err, bodies.ErrOverloaded) {
		return err
	}
	if _, err := mcp.ScanReplacing(b.Bytes, m); err != nil && m.ID == nil {
		m.ID = mcp.PeekID(b.Bytes)
	}
	return nil
}

// LimitTime bounds the time in which the rest of the body of a refused request is read. The
// returned function sets the bound again, because the server extends the deadline while it reads.
func (b *Body) LimitTime(s Source, callerKnown bool) (again func()) {
	if b.ended || s.Request.ContentLength == 0 {
		return func() {}
	}
	until := time.Now().Add(DrainTimeout)
	if !callerKnown {
		until = time.Now().Add(unknownDrainTimeout)
	}
	control := http.NewResponseController(s.Writer)
	_ = control.SetReadDeadline(until)
	return func() {
		if !b.ended {
			_ = control.SetReadDeadline(until)
		}
	}
}

// read reads the whole body, at most limit bytes. After a body that is not read to its end the
// connection is closed, because reading the rest would cost more.
func (b *Body) read(s Source, limit int, m *mcp.Message) *refusal.Refusal {
	err := bodies.ErrTooLarge
	if s.Request.ContentLength <= int64(limit) {
		if err = b.readUpTo(s, limit); err == nil {
			return nil
		}
	}
	refusal.CloseAfter(s.Writer)
	refused := &refusal.Unreadable
	switch {
	case errors.Is(err, bodies.ErrTooLarge):
		refused = &refusal.TooLarge
	case errors.Is(err, bodies.ErrOverloaded):
		refused = &refusal.Overloaded
	case errors.Is(err, os.ErrDeadlineExceeded):
		refused = &refusal.SlowBody
	default:
		return refused
	}
	if b.began {
		m.ID = mcp.PeekID(b.Bytes[:min(len(b.Bytes), bodies.MaxPrefix)])
	}
	return refused
}

// readUpTo reads the body. The HTTP server bounds its time.
func (b *Body) readUpTo(s Source, limit int) (err error) {
	b.Bytes, err = bodies.ReadAll(s.Request.Context(), b.Bytes[:0], s.Request.Body, int64(limit), s.Request.ContentLength, s.Share)
	b.ended = err == nil
	b.began = len(b.Bytes) > 0 || !errors.Is(err, bodies.ErrOverloaded) // a body that was not admitted was not read
	return err
}

// checkHeader refuses a body whose Content-Type is not JSON.
func checkHeader(h http.Header) *refusal.Refusal {
	if len(h["Content-Encoding"]) > 0 {
		return &refusal.MediaType
	}
	values := h["Content-Type"]
	if len(values) != 1 {
		return &refusal.MediaType
	}
	if values[0] == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(values[0])
	if err != nil || media != "application/json" {
		return &refusal.MediaType
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return &refusal.MediaType
	}
	return nil
}
