package mcp

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Names of the headers that carry parts of the protocol.
const (
	HeaderProtocolVersion = "MCP-Protocol-Version"
	HeaderSession         = "Mcp-Session-Id"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderLastEventID     = "Last-Event-ID"
)

// Mirrored are the values of the headers that mirror the body. An absent header
// is an empty string. The values of a repeated header must be passed joined by
// commas, which never matches.
type Mirrored struct {
	Version string // MCP-Protocol-Version
	Method  string // Mcp-Method
	Name    string // Mcp-Name
}

// CheckMirrored checks that the headers of a request agree with its body, as
// the revisions without sessions require: the version, Mcp-Method, and Mcp-Name
// for the methods that have one. A header that declares a revision without
// sessions over a body that declares any other revision is a mismatch too.
// Notifications, responses and the legacy revisions are not checked. The error
// is an *[Error] with [CodeHeaderMismatch], or with [CodeInvalidParams] when
// the body declares no version.
func CheckMirrored(m *Message, d Dialect, h Mirrored) error {
	switch {
	case m.Kind != Request:
		return nil
	case !d.Modern && Modern(h.Version):
		return faultHeaderVersion.at(-1) // the body takes precedence, and declares another revision
	case !d.Modern:
		return nil
	}
	switch {
	case m.ProtocolVersion == "":
		return faultMetaRevision.at(-1)
	case h.Version != m.ProtocolVersion:
		return faultHeaderVersion.at(-1)
	case h.Method != m.Method:
		return faultHeaderMethod.at(-1)
	}
	name, mirrored := m.MirroredName()
	if !mirrored || name == "" && h.Name == "" {
		return nil
	}
	got, ok := DecodeHeader(h.Name)
	if !ok || got != name {
		return faultHeaderName.at(-1)
	}
	return nil
}

// CheckContradiction is CheckMirrored for a message that is sent on: a header that contradicts the
// body is an error, because the server may act on either. What is absent, in the header or in the
// body, is judged by the server that answers.
func CheckContradiction(m *Message, d Dialect, h Mirrored) error {
	if m.Kind == Request && d.Modern {
		switch {
		case h.Version != "" && m.ProtocolVersion != "" && h.Version != m.ProtocolVersion:
			return faultHeaderVersion.at(-1)
		case h.Method != "" && h.Method != m.Method:
			return faultHeaderMethod.at(-1)
		}
		name, mirrored := m.MirroredName()
		if got, ok := DecodeHeader(h.Name); mirrored && h.Name != "" && (!ok || got != name) {
			return faultHeaderName.at(-1)
		}
		return nil
	}
	return CheckMirrored(m, d, h)
}

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeader returns the form of a value in Mcp-Name and Mcp-Param-*: the
// value itself when it is printable ASCII without surrounding blanks and does
// not look like the encoded form, otherwise the base64 of its UTF-8 in
// =?base64?...?=.
func EncodeHeader(value string) string {
	if !mustEncode(value) {
		return value
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + encodedSuffix
}

// mustEncode reports whether a value cannot occur in a header as it is.
func mustEncode(value string) bool {
	for i := 0; i < len(value); i++ {
		if value[i] < ' ' || value[i] >= 0x7F {
			return true
		}
	}
	return value != "" && (value[0] == ' ' || value[len(value)-1] == ' ') || looksEncoded(value)
}

// looksEncoded reports whether a value has the shape of the encoded form.
func looksEncoded(value string) bool {
	return len(value) >= len(encodedPrefix)+len(encodedSuffix) &&
		strings.EqualFold(value[:len(encodedPrefix)], encodedPrefix) &&
		strings.HasSuffix(value, encodedSuffix)
}

// DecodeHeader returns the value of the form in a header. ok is false when the
// header has the encoded form and is malformed or not UTF-8.
func DecodeHeader(form string) (value string, ok bool) {
	if !looksEncoded(form) {
		return form, true
	}
	text := form[len(encodedPrefix) : len(form)-len(encodedSuffix)]
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || !utf8.Valid(b) || strings.ContainsAny(text, "\r\n") { // the base64 decoder ignores line ends
		return "", false
	}
	return string(b), true
}
