package telemetry

import "strings"

// FromMeta returns the trace context in the _meta object of a message: the members
// traceparent and tracestate, in the formats of the headers with these names (SEP-414 of
// the Model Context Protocol). If a member occurs more than once, or is not a valid
// string, there is no trace context. meta is not trusted: a value that is not an object
// has no trace context.
//
// The tracestate is copied; it is empty without a traceparent.
func FromMeta(meta []byte) (c Context, tracestate string, ok bool) {
	parent, state, ok := membersOf(meta)
	if !ok || len(parent) > maxTraceparent {
		return Context{}, "", false
	}
	if c, ok = ParseTraceparent(string(parent)); !ok {
		return Context{}, "", false
	}
	if text := string(state[:min(len(state), maxTracestate+1)]); validTracestate(text) && !strings.Contains(text, `\`) {
		tracestate = text
	}
	return c, tracestate, true
}

// MoveMeta replaces the trace context in the _meta object of a message by c, in place: a
// traceparent has a fixed length. It returns false and changes nothing, unless _meta has
// a traceparent of version 00 with the same trace id.
func MoveMeta(meta []byte, c Context) bool {
	parent, _, ok := membersOf(meta)
	if !ok || len(parent) != traceparentSize || parent[0] != '0' || parent[1] != '0' {
		return false
	}
	before, ok := ParseTraceparent(string(parent))
	if !ok || before.Trace != c.Trace || !c.Valid() {
		return false
	}
	c.AppendTraceparent(parent[:0])
	return true
}

// membersOf returns the members traceparent and tracestate of an object, as written
// between their quotes; nil if absent. The slices share memory with meta. ok is false if
// meta is not an object, or if one of the members is duplicate or not a string.
func membersOf(meta []byte) (parent, state []byte, ok bool) {
	r := metaReader{b: meta}
	if !r.token('{') {
		return nil, nil, false
	}
	for first := true; !r.token('}'); first = false {
		if !first && !r.token(',') {
			return nil, nil, false
		}
		name, ok := r.text()
		if !ok || !r.token(':') {
			return nil, nil, false
		}
		into := &parent
		switch string(name) {
		case "traceparent":
		case "tracestate":
			into = &state
		default:
			if !r.skip() {
				return nil, nil, false
			}
			continue
		}
		value, ok := r.text()
		if !ok || *into != nil {
			return nil, nil, false
		}
		*into = value
	}
	return parent, state, true
}

// metaReader reads an object that the scan of the whole message has validated. It does
// not validate JSON, but never reads beyond the given bytes.
type metaReader struct {
	b []byte
	i int
}

// token skips white space, and c if it is next.
func (r *metaReader) token(c byte) bool {
	for r.i < len(r.b) && (r.b[r.i] == ' ' || r.b[r.i] == '\n' || r.b[r.i] == '\t' || r.b[r.i] == '\r') {
		r.i++
	}
	if r.i < len(r.b) && r.b[r.i] == c {
		r.i++
		return true
	}
	return false
}

// text reads a string and returns the bytes between its quotes. Escapes are not resolved,
// because a valid trace context contains none.
func (r *metaReader) text() ([]byte, bool) {
	if !r.token('"') {
		return nil, false
	}
	from := r.i
	for r.i < len(r.b) {
		switch r.b[r.i] {
		case '"':
			r.i++
			return r.b[from : r.i-1 : r.i-1], true
		case '\\':
			r.i++
		}
		r.i++
	}
	return nil, false
}

// skip skips one value of any kind.
func (r *metaReader) skip() bool {
	depth := 0
	for {
		if r.token('"') {
			r.i--
			if _, ok := r.text(); !ok {
				return false
			}
		} else if r.i >= len(r.b) {
			return false
		} else {
			switch r.b[r.i] {
			case '{', '[':
				depth++
				r.i++
			case '}', ']':
				if depth == 0 {
					return true // the bracket of the enclosing object
				}
				depth--
				r.i++
			case ',':
				if depth == 0 {
					return true
				}
				r.i++
			default:
				r.i++
			}
		}
		if depth == 0 && r.i < len(r.b) && (r.b[r.i] == ',' || r.b[r.i] == '}') {
			return true
		}
	}
}
