package telemetry

import (
	"encoding/hex"
	"math/rand/v2"
)

// TraceID is a W3C trace id; all zeros means none.
type TraceID [16]byte

// String returns the id as 32 lower-case hex digits.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// SpanID is a W3C parent id; all zeros means none.
type SpanID [8]byte

// The flags of a traceparent.
const (
	flagSampled = 0x01
	flagRandom  = 0x02 // the trace id is random (Trace Context, level 2)
)

// Context is the position in a trace that a caller propagates: W3C Trace Context,
// traceparent. The zero Context means none.
type Context struct {
	Trace TraceID
	Span  SpanID
	Flags byte
}

// Valid reports whether the context is set.
func (c Context) Valid() bool { return c.Trace != TraceID{} && c.Span != SpanID{} }

// Sampled reports whether the caller records the trace.
func (c Context) Sampled() bool { return c.Flags&flagSampled != 0 }

// traceparentSize is the length of a traceparent of version 00.
const traceparentSize = 55

// maxTraceparent bounds the text that a later version may append.
const maxTraceparent = 512

// ParseTraceparent parses a traceparent. ok is false for any deviation, such as an
// upper-case digit: then a new trace begins, as the recommendation requires. For a
// later version the fields of version 00 are parsed.
func ParseTraceparent(text string) (c Context, ok bool) {
	if len(text) < traceparentSize || len(text) > maxTraceparent {
		return Context{}, false
	}
	var version [1]byte
	var flags [1]byte
	switch {
	case text[2] != '-' || text[35] != '-' || text[52] != '-',
		!unhex(version[:], text[0:2]), !unhex(c.Trace[:], text[3:35]),
		!unhex(c.Span[:], text[36:52]), !unhex(flags[:], text[53:55]),
		version[0] == 0xff,
		version[0] == 0 && len(text) != traceparentSize,
		len(text) > traceparentSize && text[traceparentSize] != '-',
		!c.Valid():
		return Context{}, false
	}
	c.Flags = flags[0] & (flagSampled | flagRandom)
	return c, true
}

// AppendTraceparent appends c as a traceparent of version 00.
func (c Context) AppendTraceparent(dst []byte) []byte {
	dst = append(dst, "00-"...)
	dst = hex.AppendEncode(dst, c.Trace[:])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, c.Span[:])
	dst = append(dst, '-')
	return hex.AppendEncode(dst, []byte{c.Flags})
}

// unhex decodes lower-case hex digits, twice as many as dst has bytes.
func unhex(dst []byte, text string) bool {
	for i := range dst {
		hi, lo := digit(text[2*i]), digit(text[2*i+1])
		if hi|lo > 0x0f {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// newTraceID and newSpanID return random ids; the ids need to be unique, not secret.
func newTraceID() (id TraceID) {
	put(id[:8], rand.Uint64()|1) // never all zeros
	put(id[8:], rand.Uint64())
	return id
}

func newSpanID() (id SpanID) {
	put(id[:], rand.Uint64()|1)
	return id
}

func put(dst []byte, v uint64) {
	for i := range dst {
		dst[i] = byte(v >> (8 * i))
	}
}

// maxTracestate bounds a tracestate from a message: the length that the recommendation
// requires every implementation to forward.
const maxTracestate = 512

// validTracestate reports whether text is valid as the value of a tracestate header.
func validTracestate(text string) bool {
	if text == "" || len(text) > maxTracestate {
		return false
	}
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return true
}
