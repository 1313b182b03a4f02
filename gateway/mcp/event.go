package mcp

import (
	"bytes"
	"strconv"
)

// MaxEvent is the default bound on one event of a stream in bytes, as SDKs
// have it.
const MaxEvent = 16 << 20

// Event is one event of an event stream, or a comment between events.
//
// The slices of an event from an [EventReader] hold until its next call of
// Next.
type Event struct {
	// Type is the value of the event field, empty when there is none: the same
	// as "message".
	Type []byte
	// ID is the value of the id field. HasID tells an empty one, which resets
	// the last id, from none.
	ID    []byte
	HasID bool
	// Data is the values of the data fields, joined by line feeds. HasData
	// tells empty data from none: an event without data tells the client its
	// id or retry only.
	Data    []byte
	HasData bool
	// Retry is the reconnection time in milliseconds, where HasRetry.
	Retry    int64
	HasRetry bool
	// Comment is the text of a comment line, without its colon, where
	// IsComment; nothing else is set then.
	Comment   []byte
	IsComment bool
}

// IsMessage reports whether the event carries a message for a client: it has
// data, and its type is message or none.
func (e *Event) IsMessage() bool {
	return e.HasData && len(e.Data) > 0 && (len(e.Type) == 0 || string(e.Type) == "message")
}

// AppendEvent appends an event in the strict form that every parser reads
// alike: lines of field, colon, space, value and line feed, and an empty line.
// Data is cut at CR, LF and CRLF into one data field a line; in JSON that
// changes nothing. A type or id that holds CR or LF, or an id that holds NUL,
// cannot be written and is left out.
func AppendEvent(dst []byte, e Event) []byte {
	if e.IsComment {
		dst = appendLines(dst, ": ", e.Comment)
		return append(dst, '\n')
	}
	if len(e.Type) > 0 && lineEnd(e.Type) < 0 {
		dst = appendField(dst, "event: ", e.Type)
	}
	if e.HasID && writableID(e.ID) {
		dst = appendField(dst, "id: ", e.ID)
	}
	if e.HasRetry && e.Retry >= 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, e.Retry, 10)
		dst = append(dst, '\n')
	}
	if e.HasData {
		dst = appendLines(dst, "data: ", e.Data)
	}
	return append(dst, '\n')
}

// writableID reports whether readers would take an id: they ignore one that
// holds NUL.
func writableID(id []byte) bool {
	return lineEnd(id) < 0 && bytes.IndexByte(id, 0) < 0
}

// appendField appends one line.
func appendField(dst []byte, field string, value []byte) []byte {
	dst = append(dst, field...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// appendLines appends text as one line of the field for each of its lines.
func appendLines(dst []byte, field string, text []byte) []byte {
	for {
		i := lineEnd(text)
		if i < 0 {
			return appendField(dst, field, text)
		}
		dst = appendField(dst, field, text[:i])
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}
