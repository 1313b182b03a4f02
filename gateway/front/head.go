package front

import (
	"bytes"
	"net/http"
	"net/textproto"
)

// The bounds of a header that is read here.
const (
	maxHead   = 4 << 10
	maxFields = 64
)

// verdict is what the bytes at the start of a connection, or behind a request,
// are.
type verdict int

const (
	more  verdict = iota // not yet a whole header
	ours                 // a request that is served here
	other                // anything else
)

// head reads the header of a request in the one form that is served here:
//
//	POST <path> HTTP/1.1 CRLF
//	*( name ":" *( SP / HTAB ) value *( SP / HTAB ) CRLF )
//	CRLF
//
// where a name consists of letters, digits and hyphens, and a value of visible
// characters, spaces, tabs and bytes above ASCII. Host and Content-Length stand
// exactly once, Connection at most once and as keep-alive or close. No other
// field that frames the message, asks for something before it or changes the
// protocol may stand there. What it accepts net/http reads in the same way; a fuzz
// test holds it to that.
//
// It remembers the fields of the header before. Most are the same in the next
// request on the connection: those cost one comparison, and no memory.
type head struct {
	line   string  // the request line, CR LF included
	fields []field // of this header and of those before
	n      int     // of this one

	host   string
	length int64
	close  bool

	// Of a header that has not come to its end.
	scanned int   // bytes
	start   int   // of the line they end in
	ends    []int // of the lines before, behind their line feeds
	values  []string
}

// field is a line of the header.
type field struct {
	raw   string // as it came, without CR LF
	name  string // in canonical form
	value string
	kind  kind
}

// kind is what a field means to the framing of the message.
type kind uint8

const (
	plain kind = iota
	host
	contentLength
	connection
	foreign // not in a request that is served here
)

// common are the names that clients send, in the forms they send them in, so
// that these need no memory either.
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

// kinds are the fields that the framing depends on. What net/http treats apart
// without being about framing (Pragma, Trailer) is left to it as well.
var kinds = map[string]kind{
	"Host": host, "Content-Length": contentLength, "Connection": connection,
	"Transfer-Encoding": foreign, "Te": foreign, "Trailer": foreign, "Upgrade": foreign, "Expect": foreign,
	"Http2-Settings": foreign, "Proxy-Connection": foreign, "Keep-Alive": foreign, "Pragma": foreign,
}

// inName, inValue and inHost say which bytes may stand where.
var inName, inValue, inHost = func() (name, value, host [256]bool) {
	for c := range 256 {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		name[c] = letter || c == '-'
		host[c] = letter || c == '-' || c == '.' || c == ':' || c == '[' || c == ']'
		value[c] = c >= ' ' && c != 0x7f || c == '\t'
	}
	return name, value, host
}()

func only[T string | []byte](set *[256]bool, b T) bool {
	for i := range len(b) {
		if !set[b[i]] {
			return false
		}
	}
	return true
}

// parse looks at the bytes b of a connection, from the start of a request on.
// With ours it returns the length of the header, and the head describes it. With
// more it is to be called again with the same bytes and others behind them.
func (h *head) parse(b []byte) (int, verdict) {
	if h.scanned == 0 {
		n := min(len(b), len(h.line))
		if string(b[:n]) != h.line[:n] {
			return 0, other
		}
		if n < len(h.line) {
			return 0, more
		}
		h.scanned, h.start, h.ends = n, n, h.ends[:0]
	}
	for {
		i := bytes.IndexByte(b[h.scanned:], '\n')
		if i < 0 {
			h.scanned = len(b)
			if len(b) >= maxHead {
				return 0, other
			}
			return 0, more
		}
		end := h.scanned + i + 1
		switch {
		case end-h.start < 2 || b[end-2] != '\r' || end > maxHead:
			return 0, other
		case end-h.start == 2:
			h.scanned = 0
			if !h.read(b) {
				return 0, other
			}
			return end, ours
		case len(h.ends) == maxFields:
			return 0, other
		}
		h.ends = append(h.ends, end)
		h.scanned, h.start = end, end
	}
}

// again forgets a header that has not come to its end.
func (h *head) again() { h.scanned = 0 }

// read reads the fields.
func (h *head) read(b []byte) bool {
	h.n, h.length, h.host, h.close = 0, -1, "", false
	told := false // what becomes of the connection
	start := len(h.line)
	for i, end := range h.ends {
		line := b[start : end-2]
		start = end
		if i == len(h.fields) {
			h.fields = append(h.fields, field{})
		}
		f := &h.fields[i]
		if f.raw != string(line) && !f.read(line) {
			f.raw = "" // which is no line
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

// read reads one line.
func (f *field) read(line []byte) bool {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || !only(&inName, line[:colon]) || !only(&inValue, line[colon+1:]) {
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
		return f.value != "" && only(&inHost, f.value)
	case contentLength:
		return lengthOf(f.value) >= 0
	case connection:
		// Names of other fields, which a proxy must not pass on, are not for here.
		switch f.value {
		case "keep-alive", "Keep-Alive":
		case "close":
		default:
			return false
		}
	}
	return true
}

// lengthOf returns the value of a Content-Length, or -1: digits alone, and no more
// of them than anyone could mean. How much is too much the handler says.
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

// header fills to with the fields, except Host, which net/http keeps elsewhere.
// The values live in the head and are good until the next header is read.
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
