package telemetry

import "strings"

// FromMeta reads the trace context that a message carries in its _meta object:
// the members traceparent and tracestate, in the formats of the headers of
// these names (SEP-414 of the Model Context Protocol). Where they stand
// more than once, or are no such strings, there is none. meta is trusted no
// further than its bytes: what is not an object has no context.
//
// The tracestate is copied; it is empty without a traceparent.
func FromMeta(meta []byte) (c Context, tracestate string, ok bool) {
	var parent, state []byte
	r := metaReader{b: meta}
	if !r.token('{') {
		return Context{}, "", false
	}
	for first := true; ; first = false {
		if r.token('}') {
			break
		}
		if !first && !r.token(',') {
			return Context{}, "", false
		}
		name, ok := r.text()
		if !ok || !r.token(':') {
			return Context{}, "", false
		}
		into := &parent
		switch string(name) {
		case "traceparent":
		case "tracestate":
			into = &state
		default:
			if !r.skip() {
				return Context{}, "", false
			}
			continue
		}
		value, ok := r.text()
		if !ok || *into != nil {
			return Context{}, "", false
		}
		*into = value
	}
	if len(parent) > maxTraceparent {
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

// metaReader walks an object that a scan of the whole message has found well
// formed. It is no judge of JSON, but never reads beyond the bytes it has.
type metaReader struct {
	b []byte
	i int
}

// token takes c, after white space, if it is next.
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

// text takes a string and returns what is between its quotes. One with escapes
// is returned as written: no trace context needs any.
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

// skip takes one value of any kind.
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
					return true // of the object around
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
