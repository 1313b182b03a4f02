package otlp

import (
	"strconv"
	"strings"
)

type (
	traceID [16]byte
	spanID  [8]byte
)

// span has the data of a span from which traces are made. It does not alias
// the buffer of the request.
type span struct {
	trace      traceID
	id, parent spanID
	remote     bool // the parent is known to be in another process
	name       string
	start, end uint64 // Unix nanoseconds, 0 when absent
	failed     bool
	attributes
	resource *attributes
	scope    int // index in the scopes of the batch, from 1; 0 for one without a name
}

// rawSpan is a span during decoding: its ids may have any length.
type rawSpan struct {
	trace, id, parent []byte
	flags             uint64
	span
}

const (
	flagHasRemote = 0x100 // whether the flag below is valid
	flagRemote    = 0x200
	statusError   = 2
)

// add adds a span, or counts it as malformed. It bounds the spans of a request
// while they are decoded, because a span can be as short as two bytes.
func (b *Batch) add(r *rawSpan) error {
	if b.Spans++; b.Spans > maxSpans {
		return invalid("more than %d spans; send smaller batches", maxSpans)
	}
	s := r.span
	if len(r.trace) != len(s.trace) || len(r.id) != len(s.id) || (len(r.parent) != 0 && len(r.parent) != len(s.parent)) {
		b.Malformed++
		return nil
	}
	copy(s.trace[:], r.trace)
	copy(s.id[:], r.id)
	copy(s.parent[:], r.parent)
	if s.trace == (traceID{}) || s.id == (spanID{}) {
		b.Malformed++
		return nil
	}
	s.named()
	s.remote = r.flags&(flagHasRemote|flagRemote) == flagHasRemote|flagRemote
	b.spans = append(b.spans, s)
	return nil
}

// describe sets the resource of the spans from an index on. The resource may
// come before or after its spans.
func (b *Batch) describe(from int, resource attributes) {
	if from == len(b.spans) {
		return
	}
	shared := new(attributes) // on the heap only when a span refers to it
	*shared = resource
	for i := from; i < len(b.spans); i++ {
		b.spans[i].resource = shared
	}
}

// scoped sets the instrumentation scope of the spans from an index on. Its name may come before or
// after its spans.
func (b *Batch) scoped(from int, name string) {
	name = strings.Clone(clean(name, maxScope))
	if from == len(b.spans) || name == "" {
		return
	}
	b.scopes = append(b.scopes, name)
	for i := from; i < len(b.spans); i++ {
		b.spans[i].scope = len(b.scopes)
	}
}

// maxScope bounds the name of an instrumentation scope, in characters.
const maxScope = 100

// value is a scalar attribute value; arrays, maps and bytes have kind none.
type value struct {
	kind kind
	s    string
	i    int64
	f    float64
}

// kind is the type of an attribute's value.
type kind int

const (
	none kind = iota
	text
	integer
	number
)

func boolean(b bool) value { return value{kind: text, s: strconv.FormatBool(b)} }
