package otlp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// decodeJSON reads the tokens itself, for the same reason as decodeProtobuf.
// Ids are hexadecimal, 64-bit integers are strings or numbers, enums are
// numbers or names, and unknown members are skipped. Duplicate members are
// rejected, because some readers use the first and some the last, and so is
// invalid UTF-8.
func (b *Batch) decodeJSON(body []byte) error {
	d := &reader{jsontext.NewDecoder(bytes.NewReader(body))}
	if d.PeekKind() != '{' {
		return invalid("not an ExportTraceServiceRequest in JSON: not an object")
	}
	err := d.object(func(name string) error {
		if name == "resourceSpans" {
			return d.array(func() error { return b.jsonResource(d) })
		}
		return d.skip()
	})
	if err == nil {
		if _, more := d.ReadToken(); !errors.Is(more, io.EOF) {
			err = invalid("data after the JSON object")
		}
	}
	if err != nil && !errors.Is(err, errInvalid) {
		return invalid("not an ExportTraceServiceRequest in JSON, at byte %d", d.InputOffset())
	}
	return err
}

func (b *Batch) jsonResource(d *reader) error {
	from := len(b.spans)
	var resource attributes
	err := d.object(func(name string) error {
		switch name {
		case "resource":
			return d.object(func(name string) error {
				if name == "attributes" {
					return resource.setJSON(d)
				}
				return d.skip()
			})
		case "scopeSpans":
			return d.array(func() error { return b.jsonScope(d) })
		}
		return d.skip()
	})
	b.describe(from, resource)
	return err
}

func (b *Batch) jsonScope(d *reader) error {
	from, scope := len(b.spans), ""
	err := d.object(func(name string) error {
		switch name {
		case "scope":
			return d.object(func(name string) (err error) {
				if name != "name" {
					return d.skip()
				}
				scope, err = d.text()
				return err
			})
		case "spans":
			return d.array(func() error { return b.jsonSpan(d) })
		}
		return d.skip()
	})
	b.scoped(from, scope)
	return err
}

func (b *Batch) jsonSpan(d *reader) error {
	var r rawSpan
	err := d.object(func(name string) (err error) {
		switch name {
		case "traceId":
			r.trace, err = d.id()
		case "spanId":
			r.id, err = d.id()
		case "parentSpanId":
			r.parent, err = d.id()
		case "flags":
			r.flags, err = d.unsigned()
		case "name":
			r.name, err = d.text()
		case "startTimeUnixNano":
			r.start, err = d.unsigned()
		case "endTimeUnixNano":
			r.end, err = d.unsigned()
		case "attributes":
			return r.setJSON(d)
		case "status":
			return d.object(func(name string) error {
				if name != "code" {
					return d.skip()
				}
				code, err := d.scalar()
				r.failed = code == "2" || code == "STATUS_CODE_ERROR"
				return err
			})
		default:
			return d.skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.add(&r)
}

// setJSON applies a list of KeyValues.
func (a *attributes) setJSON(d *reader) error {
	return d.array(func() error {
		var key string
		var v value
		err := d.object(func(name string) (err error) {
			switch name {
			case "key":
				key, err = d.text()
			case "value":
				v, err = d.value()
			default:
				return d.skip()
			}
			return err
		})
		if err == nil {
			a.set(key, v)
		}
		return err
	})
}

// reader reads the types of OTLP's JSON. A null counts as an absent member,
// as in protobuf's JSON mapping.
type reader struct{ *jsontext.Decoder }

var errShape = errors.New("unexpected JSON type")

// maxMembers bounds the members of one object. The protocol's objects have at
// most 16; the decoder keeps the names of an object in memory to detect
// duplicates.
const maxMembers = 256

var errWide = invalid("an object has more than %d members", maxMembers)

// skip skips a value of any depth.
func (d *reader) skip() error {
	for depth := d.StackDepth(); ; {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n > 2*maxMembers { // names and values
			return errWide
		}
		if d.StackDepth() <= depth {
			return nil
		}
	}
}

// object calls member for each member; the reader is then at its value.
func (d *reader) object(member func(name string) error) error {
	tok, err := d.ReadToken()
	if err != nil || tok.Kind() == 'n' {
		return err
	}
	if tok.Kind() != '{' {
		return errShape
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if _, n := d.StackIndex(d.StackDepth()); n > 2*maxMembers {
			return errWide
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

// array calls element for each element; the reader is then at the element.
func (d *reader) array(element func() error) error {
	tok, err := d.ReadToken()
	if err != nil || tok.Kind() == 'n' {
		return err
	}
	if tok.Kind() != '[' {
		return errShape
	}
	for d.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

// scalar reads a string, number or boolean as text; null is "".
func (d *reader) scalar() (string, error) {
	tok, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	switch tok.Kind() {
	case 'n':
		return "", nil
	case '"', '0', 't', 'f':
		return tok.String(), nil
	}
	return "", errShape
}

// text reads a string.
func (d *reader) text() (string, error) {
	if k := d.PeekKind(); k != '"' && k != 'n' {
		return "", errShape
	}
	s, err := d.scalar()
	return s[:min(len(s), maxText)], err
}

// id reads an id. For a text that is not hexadecimal it returns an id of an
// invalid length, so that the span is malformed but not the request.
func (d *reader) id() ([]byte, error) {
	s, err := d.text()
	if err != nil || s == "" {
		return nil, err
	}
	id, err := hex.DecodeString(s[:min(len(s), 64)])
	if err != nil {
		return []byte{0}, nil
	}
	return id, nil
}

// unsigned reads a 64-bit integer, as a number or a string.
func (d *reader) unsigned() (uint64, error) {
	s, err := d.scalar()
	if err != nil || s == "" {
		return 0, err
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, errShape
	}
	return n, nil
}

// value reads an AnyValue.
func (d *reader) value() (v value, err error) {
	err = d.object(func(name string) error {
		switch name {
		case "stringValue":
			s, err := d.text()
			v = value{kind: text, s: s}
			return err
		case "boolValue":
			s, err := d.scalar()
			v = boolean(s == "true")
			return err
		case "intValue":
			s, err := d.scalar()
			if err != nil {
				return err
			}
			n, perr := strconv.ParseInt(s, 10, 64)
			if perr != nil {
				return errShape
			}
			v = value{kind: integer, i: n}
			return nil
		case "doubleValue":
			s, err := d.scalar()
			if err != nil {
				return err
			}
			f, perr := strconv.ParseFloat(s, 64)
			if perr != nil && !errors.Is(perr, strconv.ErrRange) {
				return errShape
			}
			v = value{kind: number, f: f}
			return nil
		}
		return d.skip()
	})
	return v, err
}
