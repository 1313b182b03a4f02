package otlp

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of opentelemetry/proto/{collector/trace,trace,resource,common}/v1.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScopes   = 2
	resourceAttributes    = 1
	scopeSpansScope       = 1
	scopeSpansSpans       = 2
	scopeName             = 1

	spanTraceID    = 1
	spanSpanID     = 2
	spanParentID   = 4
	spanName       = 5
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanStatus     = 15
	spanFlags      = 16
	statusCode     = 3

	keyValueKey   = 1
	keyValueValue = 2

	anyString = 1
	anyBool   = 2
	anyInt    = 3
	anyDouble = 4
)

// decodeProtobuf reads the wire format itself instead of using the generated
// messages: they take a hundred times the memory of a request with empty spans,
// and traces need only a dozen of their fields.
func (b *Batch) decodeProtobuf(body []byte) error {
	known := false
	err := each(body, func(f wireField) error {
		if !f.is(requestResourceSpans, protowire.BytesType) {
			return nil
		}
		known = true
		return b.protoResource(f.bytes)
	})
	if err == nil && !known && len(body) > 0 {
		return errNotProtobuf
	}
	return err
}

var errNotProtobuf = invalid("not an ExportTraceServiceRequest in protobuf")

func (b *Batch) protoResource(data []byte) error {
	from := len(b.spans)
	var resource attributes
	err := each(data, func(f wireField) error {
		switch {
		case f.is(resourceSpansResource, protowire.BytesType):
			return each(f.bytes, func(f wireField) error {
				if f.is(resourceAttributes, protowire.BytesType) {
					return resource.setProto(f.bytes)
				}
				return nil
			})
		case f.is(resourceSpansScopes, protowire.BytesType):
			return b.protoScope(f.bytes)
		}
		return nil
	})
	b.describe(from, resource)
	return err
}

func (b *Batch) protoScope(data []byte) error {
	from, scope := len(b.spans), ""
	err := each(data, func(f wireField) error {
		switch {
		case f.is(scopeSpansScope, protowire.BytesType):
			return each(f.bytes, func(f wireField) error {
				if f.is(scopeName, protowire.BytesType) {
					scope = string(f.bytes[:min(len(f.bytes), maxText)])
				}
				return nil
			})
		case f.is(scopeSpansSpans, protowire.BytesType):
			return b.protoSpan(f.bytes)
		}
		return nil
	})
	b.scoped(from, scope)
	return err
}

func (b *Batch) protoSpan(data []byte) error {
	var r rawSpan
	err := each(data, func(f wireField) error {
		switch {
		case f.is(spanTraceID, protowire.BytesType):
			r.trace = f.bytes
		case f.is(spanSpanID, protowire.BytesType):
			r.id = f.bytes
		case f.is(spanParentID, protowire.BytesType):
			r.parent = f.bytes
		case f.is(spanName, protowire.BytesType):
			r.name = string(f.bytes[:min(len(f.bytes), maxText)])
		case f.is(spanStart, protowire.Fixed64Type):
			r.start = f.number
		case f.is(spanEnd, protowire.Fixed64Type):
			r.end = f.number
		case f.is(spanFlags, protowire.Fixed32Type):
			r.flags = f.number
		case f.is(spanAttributes, protowire.BytesType):
			return r.setProto(f.bytes)
		case f.is(spanStatus, protowire.BytesType):
			return each(f.bytes, func(f wireField) error {
				if f.is(statusCode, protowire.VarintType) {
					r.failed = f.number == statusError
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.add(&r)
}

// setProto applies a KeyValue.
func (a *attributes) setProto(data []byte) error {
	var key []byte
	var v value
	err := each(data, func(f wireField) error {
		switch {
		case f.is(keyValueKey, protowire.BytesType):
			key = f.bytes
		case f.is(keyValueValue, protowire.BytesType):
			return each(f.bytes, func(f wireField) error {
				switch {
				case f.is(anyString, protowire.BytesType):
					v = value{kind: text, s: string(f.bytes[:min(len(f.bytes), maxText)])}
				case f.is(anyBool, protowire.VarintType):
					v = boolean(f.number != 0)
				case f.is(anyInt, protowire.VarintType):
					v = value{kind: integer, i: int64(f.number)}
				case f.is(anyDouble, protowire.Fixed64Type):
					v = value{kind: number, f: math.Float64frombits(f.number)}
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && len(key) <= maxText {
		a.set(string(key), v)
	}
	return err
}

// wireField is one field of a message: bytes or a number, by its wire type.
type wireField struct {
	num    protowire.Number
	typ    protowire.Type
	bytes  []byte
	number uint64
}

func (f *wireField) is(num protowire.Number, typ protowire.Type) bool {
	return f.num == num && f.typ == typ
}

// each calls visit for every field of a message, including unknown ones.
func each(data []byte, visit func(wireField) error) error {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errNotProtobuf
		}
		data = data[n:]
		f := wireField{num: num, typ: typ}
		switch typ {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			f.number, n = protowire.ConsumeFixed64(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			f.number = uint64(v)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
		default: // groups, which these messages never had
			return errNotProtobuf
		}
		if n < 0 {
			return errNotProtobuf
		}
		if err := visit(f); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
