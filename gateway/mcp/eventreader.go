package mcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"strconv"
)

// ErrEventTooLarge is returned by [EventReader.Next] when an event exceeds the
// limit, or when the comments and other lines between two events do. The rest of
// the stream cannot be read.
var ErrEventTooLarge = errors.New("an event of the stream is too large")

const (
	firstBuffer  = 4 << 10
	largeBuffer  = 256 << 10
	maxEmptyRead = 100
)

// EventReader reads the events of a stream as defined by the HTML standard
// (server-sent events): lines end with CR, LF or CRLF, a byte order mark at the
// start is skipped, data fields are joined, unknown fields are ignored.
//
// Events are returned as slices of the buffer, without copies, and without
// allocations once the buffer is large enough. It is not safe for concurrent use.
type EventReader struct {
	r     io.Reader
	limit int
	err   error // error of the last read

	// buf[start:] is the data that was read and not yet returned. The lines before
	// the offset line are parsed, and no line ends between line and scanned.
	buf           []byte
	start         int
	line, scanned int
	begun         bool // after the byte order mark
	skipLF        bool // the last line ended with CR; a following LF belongs to it
	between       int  // bytes of comments and other lines since the last event

	// The event that is being parsed. Its data is a range of buf, where lines are
	// joined in place; type and id have buffers of their own, because they may
	// occur between two lines of data.
	ev      Event
	typ, id []byte
	data    Span
	pending bool // at least one field was read
	some    bool // at least one field was read that makes it an event
}

// NewEventReader returns a reader of the events in r. An event has at most limit
// bytes ([MaxEvent] when limit is not positive), counting fields and comments
// before joining. The text between two events has the same limit, so a stream that
// consists of comments only is ended.
func NewEventReader(r io.Reader, limit int) *EventReader {
	if limit <= 0 {
		limit = MaxEvent
	}
	return &EventReader{r: r, limit: limit}
}

// Next returns the next event or comment. A comment inside an event is returned
// before the event.
//
// The errors are io.EOF at the end of the stream, io.ErrUnexpectedEOF when the
// stream ends inside an event, [ErrEventTooLarge], and the errors of the reader.
// With io.ErrUnexpectedEOF, Next also returns the event up to its last whole line:
// the standard discards such an event, some clients do not.
func (r *EventReader) Next() (Event, error) {
	for {
		line, ok := r.nextLine()
		if !ok {
			if err := r.fill(); err != nil {
				return r.end(err)
			}
			continue
		}
		if line.End == line.Start {
			if r.some {
				return r.take(), nil
			}
			if err := r.skip(r.line - r.start); err != nil {
				return Event{}, err
			}
			r.reset()
			continue
		}
		if r.buf[line.Start] == ':' {
			if err := r.skip(r.line - line.Start); err != nil {
				return Event{}, err
			}
			text := r.buf[line.Start+1 : line.End : line.End]
			if len(text) > 0 && text[0] == ' ' {
				text = text[1:]
			}
			if !r.pending {
				r.start = r.line
			}
			return Event{Comment: text, IsComment: true}, nil
		}
		r.field(line)
	}
}

// skip counts n bytes that belong to no event, and reports whether their limit is
// exceeded.
func (r *EventReader) skip(n int) error {
	if r.between += n; r.between > r.limit {
		r.err = ErrEventTooLarge
		return r.err
	}
	return nil
}

// Unread returns the number of bytes that were read and not yet returned.
func (r *EventReader) Unread() int { return len(r.buf) - r.start }

// end returns the remaining event or error when no more data can be read.
func (r *EventReader) end(err error) (Event, error) {
	if err != io.EOF || !r.pending && r.line == len(r.buf) {
		return Event{}, err
	}
	r.buf, r.scanned = r.buf[:r.line], r.line
	return r.take(), io.ErrUnexpectedEOF
}

// take returns the parsed event and begins the next one.
func (r *EventReader) take() Event {
	ev := r.ev
	ev.Type, ev.ID = r.typ, r.id
	ev.Data = r.buf[r.data.Start:r.data.End:r.data.End]
	r.between = 0
	r.reset()
	return ev
}

// reset begins a new event at the next line.
func (r *EventReader) reset() {
	r.start, r.pending, r.some = r.line, false, false
	r.ev, r.data = Event{}, Span{}
	r.typ, r.id = r.typ[:0], r.id[:0]
}

// nextLine returns the next whole line in the buffer.
func (r *EventReader) nextLine() (Span, bool) {
	if !r.begun && !r.skipMark() {
		return Span{}, false
	}
	if r.skipLF && r.line < len(r.buf) {
		r.skipLF = false
		if r.buf[r.line] == '\n' {
			r.line++
			if !r.pending {
				r.start = r.line
			}
			r.scanned = max(r.scanned, r.line)
		}
	}
	i := lineEnd(r.buf[r.scanned:])
	if i < 0 {
		r.scanned = len(r.buf)
		return Span{}, false
	}
	s := Span{r.line, r.scanned + i}
	r.skipLF = r.buf[s.End] == '\r'
	r.line = s.End + 1
	r.scanned = r.line
	return s, true
}

// byteOrderMark is U+FEFF in UTF-8.
const byteOrderMark = "\xEF\xBB\xBF"

// skipMark skips a byte order mark at the start of the stream. It reports whether
// enough data was read to decide.
func (r *EventReader) skipMark() bool {
	b := r.buf[r.start:]
	if len(b) < len(byteOrderMark) && string(b) == byteOrderMark[:len(b)] && r.err == nil {
		return false
	}
	r.begun = true
	if bytes.HasPrefix(b, []byte(byteOrderMark)) {
		r.start += len(byteOrderMark)
		r.line, r.scanned = r.start, r.start
	}
	return true
}

// field parses a line that is neither empty nor a comment.
func (r *EventReader) field(line Span) {
	text := r.buf[line.Start:line.End]
	name, value := text, Span{line.End, line.End}
	if i := bytes.IndexByte(text, ':'); i >= 0 {
		name = text[:i]
		value.Start = line.Start + i + 1
		if value.Start < line.End && r.buf[value.Start] == ' ' {
			value.Start++
		}
	}
	switch string(name) {
	case "data":
		if !r.ev.HasData {
			r.data, r.ev.HasData = value, true
		} else { // joined in place: the field name that preceded the value leaves a byte for the line feed
			r.buf[r.data.End] = '\n'
			n := copy(r.buf[r.data.End+1:], r.buf[value.Start:value.End])
			r.data.End += 1 + n
		}
	case "event":
		r.typ = append(r.typ[:0], r.buf[value.Start:value.End]...)
		r.pending = true
		return
	case "id":
		if bytes.IndexByte(r.buf[value.Start:value.End], 0) >= 0 {
			return
		}
		r.id = append(r.id[:0], r.buf[value.Start:value.End]...)
		r.ev.HasID = true
	case "retry":
		n, ok := digits(r.buf[value.Start:value.End])
		if !ok {
			return
		}
		r.ev.Retry, r.ev.HasRetry = n, true
	default:
		return
	}
	r.pending, r.some = true, true
}

// digits returns the number that text contains; ok is false unless text consists of
// digits.
func digits(text []byte) (int64, bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// fill reads more data into the buffer, and moves or grows the buffer when needed.
func (r *EventReader) fill() error {
	if r.err != nil {
		return r.err
	}
	if len(r.buf)-r.start > r.limit {
		r.err = ErrEventTooLarge
		return r.err
	}
	r.makeRoom()
	for range maxEmptyRead {
		n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 {
			return nil // an error returned together with data is reported by the next call
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// makeRoom ensures that the buffer is not full. An empty buffer starts again at
// offset 0, and a buffer that was grown for a rare large event is released.
func (r *EventReader) makeRoom() {
	held := len(r.buf) - r.start
	to := r.buf[:0]
	switch size := cap(r.buf); {
	case held == 0 && size > largeBuffer || size == 0:
		to = make([]byte, 0, firstBuffer)
	case held == 0:
	case len(r.buf) < size:
		return
	case held > size/2 && size < r.limit+firstBuffer:
		to = make([]byte, 0, min(2*size, r.limit+firstBuffer))
	}
	r.buf = append(to, r.buf[r.start:]...)
	r.line -= r.start
	r.scanned -= r.start
	r.data.Start -= min(r.start, r.data.Start)
	r.data.End -= min(r.start, r.data.End)
	r.start = 0
}

const (
	newlines = 0x0a0a0a0a0a0a0a0a
	returns  = 0x0d0d0d0d0d0d0d0d
)

// lineEnd returns the offset of the first CR or LF, -1 when there is none.
func lineEnd(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		n, c := w^newlines, w^returns
		if m := ((n-lowBits)&^n | (c-lowBits)&^c) & highBits; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if b[i] == '\n' || b[i] == '\r' {
			return i
		}
	}
	return -1
}
