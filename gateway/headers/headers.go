// Package headers decides which header fields pass between a client and an upstream.
// They pass by allowlist in both directions, so that neither a caller's credential nor
// an upstream's challenge ever crosses; what the configuration adds to the list never
// includes those.
package headers

import (
	"net/http"
	"slices"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// The names are in the canonical form of net/http.
var (
	// requestHeaders go to the upstream as they came.
	requestHeaders = [...]string{
		"Accept", "Content-Type", "Traceparent", "Tracestate", "Baggage",
	}
	// responseHeaders go to the client. Content-Type is written by whoever
	// writes the body, and the session id is the gateway's own.
	responseHeaders = [...]string{"Mcp-Protocol-Version", "Retry-After"}
)

// maxParams bounds the Mcp-Param headers that are passed on.
const maxParams = 64

// Rewriter changes fields on their way to the upstream.
type Rewriter interface {
	// Trace puts the gateway's own position into the trace context.
	Trace(h upstream.Header) upstream.Header
	// Param returns what a field that mirrors an argument is sent as; false for not at
	// all. The name is that behind the prefix.
	Param(name, value string) (mirrored string, ok bool)
}

// Request is what the header for an upstream is made of.
type Request struct {
	// From is the client's header, with canonical names.
	From map[string][]string
	// Message is the message that is sent.
	Message *mcp.Message
	// OwnName is the upstream's own name of what Mcp-Name mirrors; empty where that is
	// the client's.
	OwnName string
	// Hops is the value of [upstream.HeaderHops].
	Hops string
	// Forward are the names that the configuration adds, in canonical form.
	Forward  []string
	Rewriter Rewriter
}

// Append appends the header for an upstream to h, which must be empty, without what
// the transport adds for the session.
func (r *Request) Append(h upstream.Header) upstream.Header {
	bound := connectionHeaders(r.From["Connection"])
	for _, name := range requestHeaders {
		if !bound.has(name) {
			h = appendAll(h, name, r.From[name])
		}
	}
	h.Add(upstream.HeaderHops, r.Hops)
	h = r.Rewriter.Trace(h)
	r.mirror(&h)
	params := 0
	for name, values := range r.From {
		if strings.HasPrefix(name, mcp.HeaderParamPrefix) && params < maxParams && !bound.has(name) {
			params++
			for _, v := range values {
				if v, ok := r.Rewriter.Param(name[len(mcp.HeaderParamPrefix):], v); ok {
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

func appendAll(h upstream.Header, name string, values []string) upstream.Header {
	for _, v := range values {
		h.Add(name, v)
	}
	return h
}

// mirror passes on Mcp-Method and Mcp-Name as far as they mirror the message
// that is sent: an upstream that goes by them must not read another one.
func (r *Request) mirror(h *upstream.Header) {
	if v, ok := Single(r.From, "Mcp-Method"); ok && v != "" && v == r.Message.Method {
		h.Add(mcp.HeaderMethod, v)
	}
	v, ok := Single(r.From, "Mcp-Name")
	if !ok || v == "" {
		return
	}
	name, mirrored := r.Message.MirroredName()
	if plain, ok := mcp.DecodeHeader(v); mirrored && ok && plain == name {
		if r.OwnName != "" {
			v = mcp.EncodeHeader(r.OwnName)
		}
		h.Add(mcp.HeaderName, v)
	}
}

// CopyResponse copies what may pass from an upstream's header to the client's. forward
// are the names that the configuration adds, in canonical form.
func CopyResponse(to map[string][]string, from upstream.Header, forward []string) {
	bound := connectionHeaders(from.Values("Connection"))
	for _, name := range responseHeaders {
		if v := from.Get(name); v != "" {
			to[name] = []string{v}
		}
	}
	for _, name := range forward {
		if vs := from.Values(name); len(vs) > 0 && !bound.has(name) {
			switch {
			case strings.HasPrefix(name, "Access-Control-"): // what a page may read is decided here
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
		out[i] = http.CanonicalHeaderKey(name)
	}
	return out
}

// Single returns the value of a header that may be present once; ok is false when
// it is present more often.
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

// bound are the names of headers that belong to one connection, because its
// Connection header lists them; nil where it lists none.
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
