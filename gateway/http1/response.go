package http1

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// gather is the number of bytes of a response without a length that are buffered
	// before it is sent: a response that ends within it needs no chunks.
	gather = 4 << 10
	// copyBelow is the size below which data is copied into the buffer; larger data is
	// passed to the kernel without a copy.
	copyBelow = 8 << 10
	// keepBuffer is the size above which a buffer is not reused.
	keepBuffer = 16 << 10
	// writeTimeout bounds the time for writePiece bytes of a response.
	// A write deadline of the handler takes precedence.
	writeTimeout = time.Minute
	writePiece   = 256 << 10
)

// response is the response to one request. It implements the methods of
// [http.ResponseController], except Hijack and EnableFullDuplex: the rest of the request
// body is handled when the response begins.
type response struct {
	c      *conn
	header http.Header
	status int // 0 until WriteHeader

	length  int64 // of the body, as declared; -1 without
	written int64 // by the handler
	sent    bool  // the header is sent, or is in out
	chunked bool
	err     error // of the connection

	out     []byte   // bytes for the connection
	pending []byte   // body bytes that are not sent
	names   []string // for sorting
}

var (
	_ http.ResponseWriter = (*response)(nil)
	_ http.Flusher        = (*response)(nil)
	_ io.StringWriter     = (*response)(nil)
)

func (w *response) begin() {
	clear(w.header)
	if cap(w.out) > keepBuffer {
		w.out = nil
	}
	if cap(w.pending) > keepBuffer {
		w.pending = nil
	}
	w.status, w.length, w.written, w.sent, w.chunked, w.err = 0, -1, 0, false, false, nil
	Released(w.out)
	Released(w.pending)
	w.out, w.pending = w.out[:0], w.pending[:0]
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. Interim responses are dropped, because no
// request that is served here expects one.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("front: invalid status " + strconv.Itoa(status))
	}
	if w.status != 0 {
		w.c.srv.logf("http: superfluous response.WriteHeader call from %s", w.c.remote)
		return
	}
	if status < 200 {
		return
	}
	w.status = status
	if values := w.header["Content-Length"]; len(values) > 0 && bodyAllowed(status) {
		if w.length = lengthOf(values[0]); w.length < 0 {
			w.c.srv.logf("http: invalid Content-Length of %q", values[0])
			delete(w.header, "Content-Length")
		}
	}
}

func bodyAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !bodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written+int64(len(p)) > w.length:
		return 0, http.ErrContentLength
	case w.err != nil:
		return 0, w.err
	}
	w.written += int64(len(p))
	if w.length < 0 {
		if len(w.pending)+len(p) <= gather {
			w.pending = append(w.pending, p...)
			return len(p), nil
		}
		w.chunk(p)
	} else {
		w.begun(p)
		if w.written < w.length && len(w.out)+len(p) <= gather {
			w.out = append(w.out, p...)
			return len(p), nil
		}
		w.send(p, nil)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends the buffered data.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.length < 0 && bodyAllowed(w.status) {
		w.chunk(nil)
	} else {
		w.begun(nil)
		w.send(nil, nil)
	}
	return w.err
}

// SetReadDeadline and SetWriteDeadline are methods of [http.ResponseController].
func (w *response) SetReadDeadline(t time.Time) error {
	w.c.readArmed, w.c.readSet = 0, true
	return w.c.nc.SetReadDeadline(t)
}

// SetWriteDeadline implements a method of [http.ResponseController].
func (w *response) SetWriteDeadline(t time.Time) error {
	w.c.writeArmed, w.c.writeSet = 0, !t.IsZero()
	return w.c.nc.SetWriteDeadline(t)
}

// finish ends the response.
func (w *response) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.chunked:
		w.frame(nil)
		w.out = append(w.out, "0\r\n\r\n"...)
		w.send(nil, nil)
	case w.length < 0:
		if bodyAllowed(w.status) {
			w.length = int64(len(w.pending))
		}
		w.begun(nil)
		w.send(w.pending, nil)
	default:
		w.begun(nil)
		w.send(nil, nil)
		if w.written < w.length {
			w.c.closing = true // otherwise the client would wait for the rest
		}
	}
	if w.err != nil {
		w.c.closing = true
	}
}

// begun appends the header to out, once. p are the next bytes of the body, after the
// pending ones.
func (w *response) begun(p []byte) {
	if w.sent {
		return
	}
	w.sent = true
	c := w.c
	if !c.body.settle() {
		c.closing, c.linger = true, true
	}
	if c.head.close || c.srv.draining.Load() || !c.usable() {
		c.closing = true
	}
	if values := w.header["Connection"]; len(values) > 0 && hasToken(values, "close") {
		c.closing = true
	}
	b := append(w.out[:0], statusLine(w.status)...)
	w.names = w.names[:0]
	for name := range w.header {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	dated, typed := false, false
	for _, name := range w.names {
		switch name {
		case "Content-Length", "Transfer-Encoding":
			continue // written unchanged
		case "Connection":
			if c.closing {
				continue
			}
		case "Date":
			dated = true
		case "Content-Type":
			typed = true
		}
		if !allIn(&inToken, name) {
			continue
		}
		for _, v := range w.header[name] {
			b = append(b, name...)
			b = append(b, ": "...)
			b = appendValue(b, v)
			b = append(b, "\r\n"...)
		}
	}
	if len(w.pending) > 0 {
		p = w.pending
	}
	if !typed && bodyAllowed(w.status) && len(p) > 0 && len(w.header["Content-Encoding"]) == 0 {
		b = append(b, "Content-Type: "...)
		b = append(b, http.DetectContentType(p)...)
		b = append(b, "\r\n"...)
	}
	if !dated {
		b = append(b, "Date: "...)
		b = append(b, c.srv.dateNow()...)
		b = append(b, "\r\n"...)
	}
	switch {
	case w.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case w.length >= 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, w.length, 10)
		b = append(b, "\r\n"...)
	}
	if c.closing {
		b = append(b, "Connection: close\r\n"...)
	}
	w.out = append(b, "\r\n"...)
}

// chunk sends the pending bytes and p as one chunk.
func (w *response) chunk(p []byte) {
	w.chunked = true
	if len(p) >= copyBelow {
		w.begun(p)
		w.frame(nil)
		w.out = strconv.AppendInt(w.out, int64(len(p)), 16)
		w.out = append(w.out, "\r\n"...)
		w.send(p, crlf)
		return
	}
	w.frame(p)
	w.send(nil, nil)
}

var crlf = []byte("\r\n")

// frame appends the header, and the pending bytes with p as one chunk, to out.
func (w *response) frame(p []byte) {
	w.begun(p)
	if n := len(w.pending) + len(p); n > 0 {
		w.out = strconv.AppendInt(w.out, int64(n), 16)
		w.out = append(w.out, "\r\n"...)
		w.out = append(w.out, w.pending...)
		w.out = append(w.out, p...)
		w.out = append(w.out, "\r\n"...)
	}
	w.pending = w.pending[:0]
}

// send writes out, p and q to the connection, if possible with one system call.
func (w *response) send(p, q []byte) {
	if w.err == nil && len(w.out)+len(p)+len(q) > 0 {
		if len(p) < copyBelow {
			w.out = append(append(w.out, p...), q...)
			p, q = nil, nil
		}
		if w.err = w.c.write(w.out, p, q); w.err != nil {
			w.c.ctx.end() // the rest cannot be sent; net/http does the same
		}
	}
	w.out = w.out[:0]
}

// statusLine returns the first line of a response, with CR LF.
func statusLine(status int) string {
	switch status {
	case http.StatusOK:
		return "HTTP/1.1 200 OK\r\n"
	case http.StatusAccepted:
		return "HTTP/1.1 202 Accepted\r\n"
	}
	text := http.StatusText(status)
	if text == "" {
		text = "status code " + strconv.Itoa(status)
	}
	return "HTTP/1.1 " + strconv.Itoa(status) + " " + text + "\r\n"
}

// appendValue appends the value of a field; a line break in it is replaced by a space, so
// that it cannot start a new line.
func appendValue(b []byte, v string) []byte {
	v = strings.Trim(v, " \t\r\n")
	if strings.IndexByte(v, '\n') < 0 && strings.IndexByte(v, '\r') < 0 {
		return append(b, v...)
	}
	return append(b, lineBreaks.Replace(v)...)
}

var lineBreaks = strings.NewReplacer("\n", " ", "\r", " ")

func hasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// inToken are the bytes that the name of a field may contain (RFC 9110, section 5.6.2).
var inToken = func() (token [256]bool) {
	for c := range 128 {
		token[c] = inName[c] || bytes.IndexByte([]byte("!#$%&'*+.^_`|~"), byte(c)) >= 0
	}
	return token
}()
