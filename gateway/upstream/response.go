package upstream

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"svc/gateway/mcp"
)

const (
	// maxHead bounds the header of a response, and that of each interim response.
	maxHead   = bigBuffer - 1
	maxFields = 256
	// maxInterim is the largest number of 1xx responses before the final one.
	maxInterim = 8
)

// invalidf returns an ErrInvalidResponse.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidResponse}, args...)...)
}

// head is the parsed header of a response.
type head struct {
	status int
	http10 bool
	fields mcp.Header
}

// parse parses a header that ends with an empty line. Values share memory with block;
// h.fields is appended to.
//
// It is strict where parsers differ: lines end with CR LF, a field name ends at its
// colon, and no line continues another.
func (h *head) parse(block string) error {
	line, rest, err := cutLine(block)
	if err != nil {
		return err
	}
	if err := h.parseStatus(line); err != nil {
		return err
	}
	for {
		if line, rest, err = cutLine(rest); err != nil {
			return err
		}
		if line == "" {
			return nil
		}
		if len(h.fields) == maxFields {
			return invalidf("more than %d header fields", maxFields)
		}
		f, err := parseField(line)
		if err != nil {
			return err
		}
		h.fields = append(h.fields, f)
	}
}

func cutLine(s string) (line, rest string, err error) {
	i := strings.IndexByte(s, '\n')
	if i < 1 || s[i-1] != '\r' {
		return "", "", invalidf("a header line does not end with CR LF")
	}
	return s[:i-1], s[i+1:], nil
}

func (h *head) parseStatus(line string) error {
	switch {
	case len(line) < 12 || line[8] != ' ' || len(line) > 12 && line[12] != ' ' || !validValue(line[12:]):
		return invalidf("status line %.40q", line)
	case line[:8] == "HTTP/1.1":
	case line[:8] == "HTTP/1.0":
		h.http10 = true
	default:
		return invalidf("status line %.40q", line)
	}
	h.status = 0
	for _, c := range []byte(line[9:12]) {
		if c < '0' || c > '9' {
			return invalidf("status line %.40q", line)
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 || h.status > 599 {
		return invalidf("status %d", h.status)
	}
	return nil
}

func parseField(line string) (mcp.Field, error) {
	i := strings.IndexByte(line, ':')
	if i < 0 || !validName(line[:i]) { // a line that continues another starts with a space
		return mcp.Field{}, invalidf("header line %.40q", line)
	}
	value := line[i+1:]
	for value != "" && isSpace(value[0]) {
		value = value[1:]
	}
	for value != "" && isSpace(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	if !validValue(value) {
		return mcp.Field{}, invalidf("header %.40s holds a control character", line[:i])
	}
	return mcp.Field{Name: line[:i], Value: value}, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// framing is the way in which the end of a body is marked.
type framing uint8

const (
	framedNone    framing = iota // there is no body
	framedLength                 // after Content-Length bytes
	framedChunked                // after the last chunk
	framedClose                  // at the end of the connection
)

// frame determines where the body ends (RFC 9112, section 6.3), its length if known, and
// whether the connection can be reused. Ambiguous framing is rejected.
func (h *head) frame() (kind framing, length int64, reuse bool, keepAlive time.Duration, err error) {
	reuse = !h.http10
	length = -1
	chunked := false
	for i := range h.fields {
		name, value := h.fields[i].Name, h.fields[i].Value
		switch len(name) { // cheaper than comparing each name with each field
		case len("Connection"):
			if mcp.EqualName(name, "Connection") && hasToken(value, "close") {
				reuse = false
			} else if mcp.EqualName(name, "Keep-Alive") {
				keepAlive = parseKeepAlive(value)
			}
		case len("Content-Length"):
			if !mcp.EqualName(name, "Content-Length") {
				continue
			}
			if length >= 0 {
				return 0, 0, false, 0, invalidf("two Content-Length fields")
			}
			if length, err = parseLength(value); err != nil {
				return 0, 0, false, 0, err
			}
		case len("Content-Encoding"):
			if mcp.EqualName(name, "Content-Encoding") && value != "" && !strings.EqualFold(value, "identity") {
				return 0, 0, false, 0, invalidf("Content-Encoding %.40q, although only identity was accepted", value)
			}
		case len("Transfer-Encoding"):
			if !mcp.EqualName(name, "Transfer-Encoding") {
				continue
			}
			if chunked || h.http10 || !strings.EqualFold(value, "chunked") {
				return 0, 0, false, 0, invalidf("Transfer-Encoding %.40q is not the one chunked of HTTP/1.1", value)
			}
			chunked = true
		}
	}
	switch {
	case chunked && length >= 0:
		return 0, 0, false, 0, invalidf("both Content-Length and Transfer-Encoding")
	case h.status < 200 || h.status == 204 || h.status == 304:
		// Neither an unexpected body nor any data after it is read.
		return framedNone, 0, reuse && !chunked && (length <= 0 || h.status == 304), keepAlive, nil
	case chunked:
		return framedChunked, -1, reuse, keepAlive, nil
	case length == 0:
		return framedNone, 0, reuse, keepAlive, nil
	case length > 0:
		return framedLength, length, reuse, keepAlive, nil
	default:
		return framedClose, -1, false, 0, nil
	}
}

func parseLength(s string) (int64, error) {
	if s == "" || len(s) > 19 {
		return 0, invalidf("Content-Length %.40q", s)
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' { // ParseInt accepts a sign
			return 0, invalidf("Content-Length %.40q", s)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n == math.MaxInt64 {
		return 0, invalidf("Content-Length %.40q", s)
	}
	return n, nil
}

// hasToken reports whether a comma-separated list contains the token.
func hasToken(list, token string) bool {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		if strings.EqualFold(strings.Trim(item, " \t"), token) {
			return true
		}
	}
	return false
}

// parseKeepAlive parses timeout=SECONDS of a Keep-Alive field; 0 when there is none.
func parseKeepAlive(value string) time.Duration {
	for value != "" {
		var item string
		item, value, _ = strings.Cut(value, ",")
		name, seconds, _ := strings.Cut(strings.Trim(item, " \t"), "=")
		if strings.EqualFold(name, "timeout") {
			if n, err := strconv.ParseUint(seconds, 10, 31); err == nil {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}

// headEnd returns the length of the header at the start of b, including its empty line,
// or 0 while it is incomplete. The search starts at from.
func headEnd(b []byte, from int) int {
	from = max(from-3, 0)
	if i := bytes.Index(b[from:], crlf2); i >= 0 {
		return from + i + len(crlf2)
	}
	return 0
}

var crlf2 = []byte("\r\n\r\n")
