package http1

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// describe responds with everything that a handler can see of a request. Not every body is read,
// so that the data after an unread body is covered too.
func describe(w http.ResponseWriter, r *http.Request) {
	var seen strings.Builder
	fmt.Fprintf(&seen, "%q %q %q %q %q %q close=%v length=%d encoding=%q trailer=%q", r.Method, r.RequestURI, r.URL.Path, r.URL.Host,
		r.Host, r.Proto, r.Close, r.ContentLength, r.TransferEncoding, r.Trailer)
	var names []string
	for name, values := range r.Header {
		names = append(names, fmt.Sprintf(" %q=%q", name, values))
	}
	slices.Sort(names)
	seen.WriteString(strings.Join(names, ""))
	w.Header().Set("Content-Type", "text/plain")
	if r.Header.Get("X-Unread") == "" {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(&seen, " body=%q", body)
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
		}
	}
	io.WriteString(w, seen.String())
}

// frontPair is a server of this package and a plain one of net/http, with the same handler.
type frontPair struct {
	front, plain string
	tls          *tls.Config // of the client; nil for none
}

// newPair starts both, with TLS if there is a certificate.
func newPair(t testing.TB, certs ...tls.Certificate) frontPair {
	var server, client *tls.Config
	if len(certs) > 0 {
		server, client = &tls.Config{Certificates: certs}, &tls.Config{InsecureSkipVerify: true}
	}
	r := start(t, describe, func(o *Options) { o.TLS = server })
	plain := &http.Server{Handler: http.HandlerFunc(describe), MaxHeaderBytes: 64 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if server != nil {
		ln = tls.NewListener(ln, server)
	}
	served := make(chan error, 1)
	go func() { served <- plain.Serve(ln) }()
	t.Cleanup(func() { plain.Close(); <-served })
	return frontPair{r.addr, addr, client}
}

// converse sends a conversation, in pieces, and returns all responses. whole is false when the
// connection was reset, so that a part may be lost.
func (p frontPair) converse(t testing.TB, addr string, text []byte, cut int) (got string, whole bool) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.(*net.TCPConn).SetLinger(0)
	type halfCloser interface {
		net.Conn
		CloseWrite() error
	}
	c := nc.(halfCloser)
	if p.tls != nil {
		c = tls.Client(nc, p.tls)
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		c.Write(text[:cut])
		c.Write(text[cut:])
		c.CloseWrite()
	}()
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s does not end %q", addr, text)
	}
	return undated(string(b)), err == nil
}

// same compares the responses of both servers to one conversation.
func (p frontPair) same(t testing.TB, text []byte, cut int) {
	t.Helper()
	var ours, theirs string
	for range 20 {
		a, wholeA := p.converse(t, p.front, text, cut)
		b, wholeB := p.converse(t, p.plain, text, cut)
		if a == b {
			return
		}
		if ours, theirs = a, b; wholeA && wholeB {
			break
		}
	}
	t.Fatalf("%q, cut at %d\nfront    %q\nnet/http %q", text, cut, ours, theirs)
}

// The parts of generated conversations.
var (
	someLines = []string{
		"POST /mcp HTTP/1.1", "POST /mcp HTTP/1.1", "POST /mcp HTTP/1.1", "POST /mcp HTTP/1.1", "POST /mcp HTTP/1.0", "POST /mcp HTTP/1.2",
		"POST /mcp HTTP/2.0", "POST /mcp?x HTTP/1.1", "POST //mcp HTTP/1.1", "POST /mcp/ HTTP/1.1", "POST /%6dcp HTTP/1.1", "POST /mcp/%2e%2e/x HTTP/1.1",
		"POST http://b/mcp HTTP/1.1", "POST * HTTP/1.1", "OPTIONS * HTTP/1.1", "post /mcp HTTP/1.1", "GET /mcp HTTP/1.1", "HEAD /mcp HTTP/1.1",
		"DELETE /mcp HTTP/1.1", "POST /mcp#x HTTP/1.1", "POST  /mcp HTTP/1.1", "POST /mcp  HTTP/1.1", "POST /mcp HTTP/1.1 ", "POST /mcp", "CONNECT b:1 HTTP/1.1",
	}
	someFields = []string{
		"Host: b", "host: b:80", "Host:", "Host: a, b", "Content-Length: 5", "Content-Length: +5", "Content-Length: 5,5", "Content-Length: 5, 5",
		"content-length: 005", "Content-Length: 99999999999", "Content-Length: 99999999999999999999", "Content-Length: 0", "Content-Length: -1", "Content-Length: 5 ",
		"Content-Length : 5", "Content-Length:\x0b5", "Content-Length: 0x5", "Content_Length: 7", "Transfer-Encoding: chunked", "Transfer-Encoding: identity",
		"Transfer-Encoding: Chunked", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding : chunked",
		"Transfer-Encoding:\x0bchunked", "transfer-encoding:chunked", "Transfer_Encoding: chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding:",
		"Connection: close", "Connection: keep-alive", "Connection: Content-Length", "Connection: close, keep-alive", "Connection: CLOSE", "Connection: ",
		"Connection: upgrade", "Upgrade: h2c", "Expect: 100-continue", "Expect: x", "Trailer: X", "TE: trailers", "Pragma: no-cache", "Keep-Alive: 5",
		" folded: x", "\tfolded", "A: b\rC: d", "A: \x00", "A: \xff\x80", "A\xff: b", "A B: c", ": x", "A:", "A", "Accept: a", "accept: b",
		"X-Unread: yes", "Cookie: a=b", "Cookie: c", "A: \x7f", "A(b): c", "Host : b", "Http2-Settings: AAAA",
	}
	someBodies = []string{
		"hello", "", "hell", "hello!", "5\r\nhello\r\n0\r\n\r\n", "5;x=\"y\r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n", "05\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"0\r\n\r\n", "fffffffffffffffff\r\n", "-1\r\n", "\r\n", "5\r\nhelloX0\r\n\r\n",
	}
	someEnds = []string{"\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n"}
)

func one(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// conversation generates a few requests, many of them almost valid.
func conversation(r *rand.Rand) []byte {
	var b bytes.Buffer
	for range 1 + r.IntN(4) {
		if r.IntN(2) == 0 { // a valid one
			body := one(r, someBodies)
			b.WriteString(post(body, one(r, []string{"A: b", "Accept: a", "X-Unread: yes", "Cookie: x", "Connection: keep-alive"})))
			continue
		}
		end := func() string { return "\r\n" }
		if r.IntN(4) == 0 {
			end = func() string { return one(r, someEnds) }
		}
		b.WriteString(one(r, someLines) + end())
		fields := []string{"Host: a", "Content-Length: 5"}
		for range r.IntN(4) {
			fields = append(fields, one(r, someFields))
		}
		if r.IntN(5) == 0 {
			fields = fields[1:]
		}
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		for _, f := range fields {
			b.WriteString(f + end())
		}
		b.WriteString(end() + one(r, someBodies))
	}
	text := b.Bytes()
	for range max(0, r.IntN(6)-3) { // and sometimes one byte is changed
		i := r.IntN(len(text))
		switch r.IntN(3) {
		case 0:
			text[i] = byte(r.IntN(256))
		case 1:
			text = slices.Delete(text, i, i+1)
		default:
			text = slices.Insert(text, i, "\r\n\x00 :,\t\xff0"[r.IntN(9)])
		}
		if len(text) == 0 {
			break
		}
	}
	return text
}

// For the same bytes a handler of this server gets the same requests, in the same order and with
// the same bodies, as a handler of net/http, and the client gets the same responses, so that
// request smuggling is not possible. SVC_CONVERSATIONS sets the number of conversations.
func TestConversationsAreThoseOfNetHTTP(t *testing.T) {
	n := 600
	if s := os.Getenv("SVC_CONVERSATIONS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	cert, _ := certificate(t)
	for name, p := range map[string]frontPair{"plain": newPair(t), "TLS": newPair(t, cert)} {
		t.Run(name, func(t *testing.T) {
			n := n
			if p.tls != nil {
				n /= 5
			}
			for seed := range n {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				text := conversation(r)
				p.same(t, text, r.IntN(len(text)+1))
			}
		})
	}
}

// Line breaks after a request, and the end of the connection within the next one, lead to what
// net/http responds: 400 once four bytes have arrived, the skipped line breaks included.
func TestBytesAfterLineBreaksAreAnsweredAsByNetHTTP(t *testing.T) {
	p := newPair(t)
	for _, call := range []string{post("x"), "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length:00\r\n\r\n"} {
		for _, breaks := range []string{"", "\n", "\r\n", "\r\n\n", "\r\n\r\n", "\r\n\r\n\r\n"} {
			for _, rest := range []string{"", "0", "00", "000", "0000", "P", "POST", "POST /mcp HTTP/1.1\r\n"} {
				text := []byte(call + breaks + rest)
				p.same(t, text, len(text)/2)
				p.same(t, text, len(call)+len(breaks))
			}
		}
	}
}

// FuzzConnection does the same with the fuzzer's input.
func FuzzConnection(f *testing.F) {
	for _, tt := range hostile {
		f.Add([]byte(tt.text))
	}
	p := newPair(f)
	f.Fuzz(func(t *testing.T, text []byte) { p.same(t, text, len(text)/2) })
}
