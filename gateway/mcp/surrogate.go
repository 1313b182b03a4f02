package mcp

import (
	"bytes"
	"errors"
	"strings"
)

// ScanReplacing is [Scan] for a message of a client or an upstream that may contain
// lone surrogates in text: tools that truncate text by UTF-16 units write half an
// emoji as \ud83d. Each such surrogate is replaced by \ufffd, which has the same
// length, inside body; replaced is their number. A message with lone surrogates
// elsewhere (see replaceSurrogates) is refused as by Scan, and body may have
// changed.
func ScanReplacing(body []byte, m *Message) (replaced int, err error) {
	err = Scan(body, m)
	if err == nil || !isLoneSurrogate(err) {
		return 0, err
	}
	replaced, ok := replaceSurrogates(body)
	if !ok {
		return 0, err
	}
	return replaced, Scan(body, m)
}

// ScanAnswer is [ScanReplacing] for a message of an upstream, which may also begin with a byte order
// mark: some frameworks write one, and parsers may ignore it (RFC 8259, 8.1). It becomes three
// blanks inside body. A client's message with one is refused, because it is evaluated in the form
// in which it is sent on.
func ScanAnswer(body []byte, m *Message) (replaced int, err error) {
	if len(body) >= len(byteOrderMark) && string(body[:len(byteOrderMark)]) == byteOrderMark {
		copy(body, "   ")
	}
	return ScanReplacing(body, m)
}

func isLoneSurrogate(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == faults[faultSurrogate].Reason
}

// replaceSurrogates replaces the lone surrogates of body that are in text. ok is
// false when one is not in text, or the body is not JSON.
//
// Text is a string value, at any depth, inside the members of params and result
// that people and models read (isTextMember), inside members of _meta that the
// protocol does not define, and inside error.message and error.data. All other
// strings are identifiers: a replacement could make two of them equal.
func replaceSurrogates(body []byte) (replaced int, ok bool) {
	s := surrogates{b: body}
	ok = s.value(partTop, 0)
	return s.replaced, ok
}

// part selects the rule for the strings of a value.
type part uint8

const (
	partExact part = iota // no string may be changed
	partTop               // the message
	partError             // the error of a response
	partBody              // params, result, and values in them
	partMeta              // a _meta object
	partText              // every string value is text
)

// member returns the part of a member of an object of this part.
func (in part) member(name string, isObject bool) part {
	switch in {
	case partText, partExact:
		return in
	case partTop:
		switch name {
		case "params", "result":
			return partBody
		case "error":
			return partError
		}
		return partExact
	case partError:
		if name == "message" || name == "data" {
			return partText
		}
		return partExact
	case partMeta:
		if isForeignMeta(name) {
			return partText
		}
	case partBody:
		switch {
		case name == "_meta":
			return partMeta
		case isTextMember(name, isObject):
			return partText
		}
	}
	return partBody
}

// isTextMember reports whether the strings inside a member are text. The arguments
// of a prompt in a list are an array that declares argument names: those strings
// are not text.
func isTextMember(name string, isObject bool) bool {
	switch name {
	case "content", "structuredContent", "contents", "messages", "description", "title", "text", "inputResponses":
		return true
	case "arguments":
		return isObject
	}
	return false
}

// isForeignMeta reports whether a key of _meta is not defined by the protocol: it
// has no prefix, or a prefix whose second label is neither modelcontextprotocol nor
// mcp.
func isForeignMeta(key string) bool {
	switch key {
	case "progressToken", "traceparent", "tracestate", "baggage":
		return false
	}
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	_, rest, _ := strings.Cut(prefix, ".")
	label, _, _ := strings.Cut(rest, ".")
	return label != "modelcontextprotocol" && label != "mcp"
}

// surrogates walks a body that was not fully scanned: it checks only enough to stay
// within bounds, and leaves all other checks to the scan that follows.
type surrogates struct {
	b        []byte
	i        int
	replaced int
}

func (s *surrogates) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// at skips white space and reports whether c comes next; if so, c is skipped too.
func (s *surrogates) at(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// value walks one value. depth is the depth of the enclosing object or array.
func (s *surrogates) value(in part, depth int) bool {
	switch {
	case depth > MaxDepth:
		return false
	case s.at('{'):
		return s.items('}', func() bool { return s.member(in, depth) })
	case s.at('['):
		return s.items(']', func() bool { return s.value(in, depth+1) })
	case s.at('"'):
		return s.str(in == partText)
	}
	start := s.i
	for s.i < len(s.b) && bytes.IndexByte([]byte(",]} \t\r\n"), s.b[s.i]) < 0 {
		s.i++
	}
	return s.i > start
}

// items walks the items of an object or array up to its end.
func (s *surrogates) items(end byte, item func() bool) bool {
	if s.at(end) {
		return true
	}
	for item() {
		if s.at(end) {
			return true
		}
		if !s.at(',') {
			return false
		}
	}
	return false
}

// member walks a member of an object.
func (s *surrogates) member(in part, depth int) bool {
	if !s.at('"') {
		return false
	}
	start := s.i
	if !s.str(false) {
		return false
	}
	name := s.b[start : s.i-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = appendUnescaped(nil, name)
	}
	if !s.at(':') {
		return false
	}
	s.space()
	isObject := s.i < len(s.b) && s.b[s.i] == '{'
	return s.value(in.member(alias(name), isObject), depth+1)
}

// str walks a string after its opening quote, and replaces its lone surrogates if
// it is text.
func (s *surrogates) str(replace bool) bool {
	b := s.b
	for s.i < len(b) {
		c := b[s.i]
		s.i++
		switch {
		case c == '"':
			return true
		case c != '\\':
		case s.i == len(b):
			return false
		case b[s.i] != 'u':
			s.i++
		default:
			r, ok := hex4(b, s.i+1)
			s.i += 5
			switch {
			case !ok:
				return false
			case r < 0xD800 || r > 0xDFFF:
			case r < 0xDC00 && lowSurrogate(b, s.i):
				s.i += 6
			case !replace:
				return false
			default:
				copy(b[s.i-4:], "fffd")
				s.replaced++
			}
		}
	}
	return false
}

// lowSurrogate reports whether the escape of a low surrogate is at i.
func lowSurrogate(b []byte, i int) bool {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return false
	}
	r, ok := hex4(b, i+2)
	return ok && 0xDC00 <= r && r <= 0xDFFF
}
