package mcp

import (
	"bytes"
	"strconv"
)

// MaxEvent is the default limit of one event of a stream in bytes, the same as
// in SDKs.
const MaxEvent = 16 << 20

// Event is one event of an event stream, or a comment between events.
//
// The slices of an event from an [EventReader] are valid until the next call of
// Next.
type Event struct {
	// Type is the value of the event field. Empty means absent, which is
	// equivalent to "message".
	Type []byte
	// ID is the value of the id field. HasID distinguishes an empty id, which
	// resets the last id, from an absent one.
	ID    []byte
	HasID bool
	// Data is the values of the data fields, joined by line feeds. HasData
	// distinguishes empty data from absent data: an event without data only
	// transmits its id or retry.
	Data    []byte
	HasData bool
	// Retry is the reconnection time in milliseconds, if HasRetry is set.
	Retry    int64
	HasRetry bool
	// Comment is the text of a comment line without its colon, if IsComment is
	// set; all other fields are zero then.
	Comment   []byte
	IsComment bool
}

// IsMessage reports whether the event carries a message for a client: it has
// data, and its type is message or none.
func (e *Event) IsMessage() bool {
	return e.HasData && len(e.Data) > 0 && (len(e.Type) == 0 || string(e.Type) == "message")
}

// Droppable reports whether an event with data that [Scan] refused can be left out of a
// stream without withholding the response to a request: clients do not read events of its
// type, or the data cannot be meant as a response.
func (e *Event) Droppable() bool {
	return len(e.Type) > 0 && string(e.Type) != "message" || !mayBeResponse(e.Data)
}

// mayBeResponse reports whether a text that Scan refused may be meant as a response. It
// cannot be when it is no JSON object and no batch with content, when it has neither a result
// nor an error, but a method or no id, and when it is a result whose id is null: only an error
// may have no id.
func mayBeResponse(text []byte) bool {
	s := scanner{b: text}
	if !s.document() || s.soft == faultTwin {
		text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte(byteOrderMark)), " \t\r\n")
		if len(text) > 0 && text[0] == '[' {
			return string(bytes.TrimSpace(text[1:])) != "]"
		}
		return len(text) > 0 && text[0] == '{'
	}
	has := func(f field) bool { return s.slots[f].kind != 0 }
	if has(fieldResult) || has(fieldError) {
		return has(fieldError) || !has(fieldID) || s.slots[fieldID].kind != kindNull
	}
	return !has(fieldMethod) && has(fieldID) && s.slots[fieldID].kind != kindNull
}

// AppendEvent appends an event in the strict form that every parser interprets
// alike: lines of field, colon, space, value and line feed, and an empty line.
// Data is split at CR, LF and CRLF into one data field per line; in JSON that
// changes nothing. A type or id that contains CR or LF, and an id that contains
// NUL, cannot be written and is omitted.
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

// writableID reports whether readers accept an id: they ignore an id that
// contains NUL.
func writableID(id []byte) bool {
	return lineEnd(id) < 0 && bytes.IndexByte(id, 0) < 0
}

// appendField appends one line.
func appendField(dst []byte, field string, value []byte) []byte {
	dst = append(dst, field...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// appendLines appends each line of text as one line of the field.
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
