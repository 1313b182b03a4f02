package mcp

import (
	"net/textproto"
	"slices"
	"strings"
)

// The names are in the canonical form of net/http.
var (
	// requestHeaders are forwarded to the upstream unchanged.
	requestHeaders = [...]string{
		"Accept", "Content-Type", "Traceparent", "Tracestate", "Baggage",
	}
	// responseHeaders are forwarded to the client. Content-Type is set where the body is written,
	// and the session id is the gateway's own.
	responseHeaders = [...]string{"Mcp-Protocol-Version", "Retry-After"}
)

// maxParams bounds the number of Mcp-Param headers that are forwarded.
const maxParams = 64

// Rewriter changes fields of the upstream request.
type Rewriter interface {
	// Trace sets the gateway's own span in the trace context.
	Trace(h Header) Header
	// Param returns the value of a field that mirrors an argument; false to omit the field. The
	// name is the part after the prefix.
	Param(name, value string) (mirrored string, ok bool)
}

// RequestHeader has the inputs of the header of an upstream request.
type RequestHeader struct {
	// From is the client's header, with canonical names.
	From map[string][]string
	// Message is the message that is sent to the upstream.
	Message *Message
	// OwnName is the upstream's own name for the value of Mcp-Name; empty if it is the same as
	// the client's.
	OwnName string
	// Hops is the value of [HeaderHops].
	Hops string
	// Forward are the configured additional names, in canonical form.
	Forward  []string
	Rewriter Rewriter
}

// Append appends the header of the upstream request to h, which must be empty. The transport adds
// the fields of the session.
func (r *RequestHeader) Append(h Header) Header {
	bound := connectionHeaders(r.From["Connection"])
	for _, name := range requestHeaders {
		if !bound.has(name) {
			h = appendAll(h, name, r.From[name])
		}
	}
	h.Add(HeaderHops, r.Hops)
	h = r.Rewriter.Trace(h)
	r.mirror(&h)
	params := 0
	for name, values := range r.From {
		if strings.HasPrefix(name, HeaderParamPrefix) && params < maxParams && !bound.has(name) {
			params++
			for _, v := range values {
				if v, ok := r.Rewriter.Param(name[len(HeaderParamPrefix):], v); ok {
					h.Add(name, v)
				}
			}
		}
	}
	for _, name := range r.Forward {
		if !h.Has(name) && !bound.has(name) {
			h = appendAll(h, name, r.From[name])
		}
	}
	return h
}

func appendAll(h Header, name string, values []string) Header {
	for _, v := range values {
		h.Add(name, v)
	}
	return h
}

// mirror forwards Mcp-Method and Mcp-Name if they match the message that is sent, because an
// upstream may act on these fields.
func (r *RequestHeader) mirror(h *Header) {
	if v, ok := Single(r.From, "Mcp-Method"); ok && v != "" && v == r.Message.Method {
		h.Add(HeaderMethod, v)
	}
	v, ok := Single(r.From, "Mcp-Name")
	if !ok || v == "" {
		return
	}
	name, mirrored := r.Message.MirroredName()
	// An app may have called the tool by the upstream's own name.
	if plain, ok := DecodeHeader(v); mirrored && ok && (plain == name || plain == r.OwnName) {
		if r.OwnName != "" {
			v = EncodeHeader(r.OwnName)
		}
		h.Add(HeaderName, v)
	}
}

// CopyResponse copies the fields of an upstream's response that are forwarded to the client.
// forward are the configured additional names, in canonical form.
func CopyResponse(to map[string][]string, from Header, forward []string) {
	bound := connectionHeaders(from.Values("Connection"))
	for _, name := range responseHeaders {
		if v := from.Get(name); v != "" {
			to[name] = []string{v}
		}
	}
	for _, name := range forward {
		if vs := from.Values(name); len(vs) > 0 && !bound.has(name) {
			switch {
			case strings.HasPrefix(name, "Access-Control-"): // the gateway decides which origins may read responses (CORS)
			case name == "Vary":
				to[name] = append(slices.Clip(to[name]), vs...)
			default:
				to[name] = vs
			}
		}
	}
}

// Canonical returns names in canonical form, for Forward.
func Canonical(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	return out
}

// Single returns the value of a header that may occur once; ok is false when it occurs more
// often.
func Single(h map[string][]string, name string) (value string, ok bool) {
	values := h[name]
	switch len(values) {
	case 0:
		return "", true
	case 1:
		return values[0], true
	}
	return "", false
}

// bound returns the names of headers that belong to one connection, because its Connection header
// lists them; nil if it lists none.
type bound []string

func connectionHeaders(values []string) bound {
	var names bound
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			switch name = strings.TrimSpace(name); strings.ToLower(name) {
			case "", "close", "keep-alive":
			default:
				names = append(names, name)
			}
		}
	}
	return names
}

func (b bound) has(name string) bool {
	for _, s := range b {
		if strings.EqualFold(s, name) {
			return true
		}
	}
	return false
}
