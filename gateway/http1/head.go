package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
)

// The bounds of a header that is served here.
const (
	maxHead   = 4 << 10
	maxFields = 64
)

// verdict classifies the bytes at the start of a connection, or after a request.
type verdict int

const (
	incomplete verdict = iota // the header is not complete
	fast                      // a request that is served here
	fallback                  // a request for net/http
)

// head parses the header of a request in the single form that is served here:
//
//	POST <path> HTTP/1.1 CRLF
//	*( name ":" *( SP / HTAB ) value *( SP / HTAB ) CRLF )
//	CRLF
//
// where a name consists of letters, digits and hyphens, and a value of visible
// characters, spaces, tabs and bytes above ASCII. Host and Content-Length occur exactly
// once, Connection at most once and as keep-alive or close. Other fields that change the
// framing, need an interim response or switch the protocol are not allowed. net/http
// parses every accepted header to the same request; a fuzz test checks this.
//
// The head keeps the fields of the previous header. Most are the same in the next request
// of the connection: these cost one comparison, and no memory.
type head struct {
	lines  []line  // the request lines that are served here
	at     int     // the line of this header, among them
	fields []field // of this header and of earlier ones
	n      int     // number of fields of this header

	host   string
	length int64
	close  bool

	// State of a header that is not complete:
	scanned int   // bytes scanned
	start   int   // offset of the incomplete line
	ends    []int // offsets after the line feeds of the complete lines
	values  []string
}

// line is a request line that is served here.
type line struct {
	path string
	text string // with CR LF
}

// linesOf returns the request lines of paths. None is the beginning of another one.
func linesOf(paths []string) []line {
	lines := make([]line, len(paths))
	for i, path := range paths {
		lines[i] = line{path, "POST " + path + " HTTP/1.1\r\n"}
	}
	return lines
}

// field is a line of the header.
type field struct {
	raw   string // as received, without CR LF
	name  string // in canonical form
	value string
	kind  kind
}

// kind is the role of a field in the framing of the message.
type kind uint8

const (
	plain kind = iota
	host
	contentLength
	connection
	foreign // not allowed in a request that is served here
)

// common are frequent names in the forms that clients send, so that these need no memory
// either.
var common = func() map[string]string {
	names := []string{
		"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Baggage", "Cache-Control", "Connection",
		"Content-Length", "Content-Type", "Cookie", "Forwarded", "Host", "Last-Event-Id", "Mcp-Method", "Mcp-Name",
		"Mcp-Protocol-Version", "Mcp-Session-Id", "Origin", "Priority", "Referer", "Sec-Fetch-Dest", "Sec-Fetch-Mode",
		"Sec-Fetch-Site", "Traceparent", "Tracestate", "User-Agent", "X-Api-Key", "X-Forwarded-For",
		"X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id",
	}
	m := make(map[string]string, 2*len(names)+2)
	for _, n := range names {
		m[n], m[string(bytes.ToLower([]byte(n)))] = n, n
	}
	m["MCP-Protocol-Version"], m["Last-Event-ID"] = "Mcp-Protocol-Version", "Last-Event-Id"
	return m
}()

// kinds are the fields that affect the framing. Requests with fields that net/http treats
// specially for other reasons (Pragma, Trailer) are also left to net/http.
var kinds = map[string]kind{
	"Host": host, "Content-Length": contentLength, "Connection": connection,
	"Transfer-Encoding": foreign, "Te": foreign, "Trailer": foreign, "Upgrade": foreign, "Expect": foreign,
	"Http2-Settings": foreign, "Proxy-Connection": foreign, "Keep-Alive": foreign, "Pragma": foreign,
}

// inName, inValue and inHost are the allowed bytes.
var inName, inValue, inHost = func() (name, value, host [256]bool) {
	for c := range 256 {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		name[c] = letter || c == '-'
		host[c] = letter || c == '-' || c == '.' || c == ':' || c == '[' || c == ']'
		value[c] = c >= ' ' && c != 0x7f || c == '\t'
	}
	return name, value, host
}()

func allIn[T string | []byte](set *[256]bool, b T) bool {
	for i := range len(b) {
		if !set[b[i]] {
			return false
		}
	}
	return true
}

// parse parses the bytes b of a connection, from the start of a request. For fast it
// returns the length of the header, and the head describes it. For incomplete, parse must
// be called again with the same bytes and further ones.
func (h *head) parse(b []byte) (int, verdict) {
	if h.scanned == 0 {
		if is := h.first(b); is != fast {
			return 0, is
		}
		n := len(h.lines[h.at].text)
		h.scanned, h.start, h.ends = n, n, h.ends[:0]
	}
	for {
		i := bytes.IndexByte(b[h.scanned:], '\n')
		if i < 0 {
			h.scanned = len(b)
			if len(b) >= maxHead {
				return 0, fallback
			}
			return 0, incomplete
		}
		end := h.scanned + i + 1
		switch {
		case end-h.start < 2 || b[end-2] != '\r' || end > maxHead:
			return 0, fallback
		case end-h.start == 2:
			h.scanned = 0
			if !h.read(b) {
				return 0, fallback
			}
			return end, fast
		case len(h.ends) == maxFields:
			return 0, fallback
		}
		h.ends = append(h.ends, end)
		h.scanned, h.start = end, end
	}
}

// first finds the request line. Most are the one of the previous request.
func (h *head) first(b []byte) verdict {
	if text := h.lines[h.at].text; len(b) >= len(text) && string(b[:len(text)]) == text {
		return fast
	}
	is := fallback
	for i := range h.lines {
		text := h.lines[i].text
		n := min(len(b), len(text))
		switch {
		case string(b[:n]) != text[:n]:
		case n == len(text):
			h.at = i
			return fast
		default:
			is = incomplete
		}
	}
	return is
}

// reset discards the state of an incomplete header.
func (h *head) reset() { h.scanned = 0 }

// read parses the fields.
func (h *head) read(b []byte) bool {
	h.n, h.length, h.host, h.close = 0, -1, "", false
	told := false // a Connection field was read
	start := len(h.lines[h.at].text)
	for i, end := range h.ends {
		line := b[start : end-2]
		start = end
		if i == len(h.fields) {
			h.fields = append(h.fields, field{})
		}
		f := &h.fields[i]
		if f.raw != string(line) && !f.read(line) {
			f.raw = "" // matches no line
			return false
		}
		h.n++
		switch f.kind {
		case plain:
		case host:
			if h.host != "" {
				return false
			}
			h.host = f.value
		case contentLength:
			if h.length >= 0 {
				return false
			}
			h.length = lengthOf(f.value)
		case connection:
			if told {
				return false
			}
			told, h.close = true, f.value == "close"
		default:
			return false
		}
	}
	return h.host != "" && h.length >= 0
}

// read parses one line.
func (f *field) read(line []byte) bool {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || !allIn(&inName, line[:colon]) || !allIn(&inValue, line[colon+1:]) {
		return false
	}
	f.raw = string(line)
	var known bool
	if f.name, known = common[f.raw[:colon]]; !known {
		f.name = textproto.CanonicalMIMEHeaderKey(f.raw[:colon])
	}
	f.value = textproto.TrimString(f.raw[colon+1:])
	f.kind = kinds[f.name]
	switch f.kind {
	case host:
		return f.value != "" && allIn(&inHost, f.value)
	case contentLength:
		return lengthOf(f.value) >= 0
	case connection:
		// Connection options other than close and keep-alive name fields that a proxy
		// must not forward; net/http handles these.
		switch f.value {
		case "keep-alive", "Keep-Alive":
		case "close":
		default:
			return false
		}
	}
	return true
}

// lengthOf returns the value of a Content-Length, or -1: only digits, and a bounded
// number of them. The handler rejects bodies that are too large.
func lengthOf(s string) int64 {
	if s == "" || len(s) > 12 {
		return -1
	}
	n := int64(0)
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// header fills to with the fields, except Host, which net/http stores elsewhere. The
// values are stored in the head and are valid until the next header is parsed.
func (h *head) header(to http.Header) {
	clear(to)
	if cap(h.values) < h.n {
		h.values = make([]string, h.n, h.n+4)
	}
	values := h.values[:h.n]
	for i := range h.n {
		f := &h.fields[i]
		if f.kind == host {
			continue
		}
		values[i] = f.value
		if before, twice := to[f.name]; twice {
			to[f.name] = append(before, f.value)
			continue
		}
		to[f.name] = values[i : i+1 : i+1]
	}
}
