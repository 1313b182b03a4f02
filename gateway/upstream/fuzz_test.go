package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"svc/gateway/mcp"
)

// upstreamScripted is a connection that returns prepared data in pieces, and then ends.
type upstreamScripted struct {
	net.Conn
	data  []byte
	piece int
}

func (s *upstreamScripted) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.piece)], s.data)
	s.data = s.data[n:]
	return n, nil
}

func (s *upstreamScripted) Write(p []byte) (int, error)     { return len(p), nil }
func (s *upstreamScripted) Close() error                    { return nil }
func (s *upstreamScripted) SetDeadline(time.Time) error     { return nil }
func (s *upstreamScripted) SetReadDeadline(time.Time) error { return nil }

// readScripted runs one exchange on the bytes and returns the response, its body, and
// whether the connection would be reused.
func readScripted(data []byte, piece, room int) (*Response, []byte, bool, error) {
	c := &Client{name: "fuzz", maxBody: 1 << 20}
	c.pool.init(&c.target)
	s := &upstreamScripted{data: data, piece: piece}
	c.pool.open = 1
	cn := newConn(s, s, c.pool.now())
	x := &exchange{client: c, ctx: context.Background()}
	if _, err := x.roundTrip(cn, &writeBuffer{gathered: true}, nil); err != nil {
		return nil, nil, false, err
	}
	var body []byte
	buf := make([]byte, room)
	for {
		n, err := x.Body.Read(buf)
		body = append(body, buf[:n]...)
		if err == io.EOF {
			again := len(c.pool.idle) == 1
			_ = c.Close()
			return &x.Response, body, again, nil
		}
		if err != nil {
			return &x.Response, body, false, err
		}
	}
}

// FuzzResponse reads any bytes as a response: the result does not depend on how the
// bytes are split or on the size of the buffer, and net/http interprets an accepted
// response in the same way.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.0 200\r\n\r\nhello",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nKeep-Alive: timeout=5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		resp, body, again, err := readScripted(bytes.Clone(data), 1<<20, 1<<16)
		for _, cut := range [][2]int{{1, 1}, {3, 5000}, {1 << 20, 7}} {
			resp2, body2, again2, err2 := readScripted(bytes.Clone(data), cut[0], cut[1])
			if (err == nil) != (err2 == nil) || (resp == nil) != (resp2 == nil) {
				t.Fatalf("in pieces of %d: error %v, else %v", cut[0], err2, err)
			}
			// When split, bytes after the response may still be missing when it ends.
			if err == nil && (!bytes.Equal(body, body2) || again && !again2) {
				t.Fatalf("in pieces of %d: body %q, else %q; used again %v, else %v", cut[0], body2, body, again2, again)
			}
		}
		if err != nil {
			return
		}
		compareWithNetHTTP(t, data, resp, body)
	})
}

// compareWithNetHTTP reads the same bytes with the standard library.
func compareWithNetHTTP(t *testing.T, data []byte, resp *Response, body []byte) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		std, err := http.ReadResponse(r, &http.Request{Method: "POST"})
		if err != nil {
			t.Fatalf("we accept, and net/http says %v", err)
		}
		if std.StatusCode < 200 {
			continue
		}
		got, err := io.ReadAll(std.Body)
		if err != nil || std.StatusCode != resp.Status || !bytes.Equal(got, body) {
			t.Fatalf("we read %d %q, net/http %d %q, %v", resp.Status, body, std.StatusCode, got, err)
		}
		for _, f := range resp.Header {
			if !mcp.IsFraming(f.Name) && len(std.Header.Values(f.Name)) == 0 {
				t.Fatalf("field %q is not there for net/http", f.Name)
			}
		}
		return
	}
}

// FuzzChunked reads any bytes after a chunked header and makes the same checks.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{"5\r\nhello\r\n0\r\n\r\n", "1;x=\"y\"\r\na\r\n00\r\nT: r\r\n\r\n", "5\nhello\n0\n\n", "ffffffffffffffff\r\n", "-1\r\n", "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		data = append([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), data...)
		resp, body, _, err := readScripted(bytes.Clone(data), 1<<20, 1<<16)
		_, body1, _, err1 := readScripted(bytes.Clone(data), 1, 3)
		if (err == nil) != (err1 == nil) || !bytes.Equal(body, body1) {
			t.Fatalf("whole: %q, %v; byte by byte: %q, %v", body, err, body1, err1)
		}
		if err == nil {
			compareWithNetHTTP(t, data, resp, body)
		}
	})
}

// FuzzRequest: for any request, the upstream receives exactly one request with these
// fields and this body.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "Content-Type", "application/json", []byte(`{"a":1}`))
	f.Add("GET", "A", "b\r\nC: d", []byte(nil))
	f.Add("DELETE", "Host", "x", []byte("GET / HTTP/1.1\r\n\r\n"))
	cfg := Config{Name: "fuzz", URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"X-Static": "1"}}
	target, err := newTarget(&cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, name, value string, body []byte) {
		var w writeBuffer
		if err := target.appendRequest(&w, &HTTPRequest{Method: method, Header: mcp.Header{{Name: name, Value: value}}, Body: body}); err != nil {
			return
		}
		wire := w.b
		if !w.gathered {
			wire = append(wire, body...)
		}
		r := bufio.NewReader(bytes.NewReader(wire))
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Fatalf("net/http: %v in %q", err, wire)
		}
		got, err := io.ReadAll(req.Body)
		if err != nil || !bytes.Equal(got, body) || r.Buffered() > 0 {
			t.Fatalf("body %q, want %q, %v, %d bytes behind it", got, body, err, r.Buffered())
		}
		n := 0
		for range req.Header {
			n++
		}
		if req.Method != method || req.Host != "127.0.0.1:1" || n > 4 || req.Header.Get("X-Static") != "1" {
			t.Fatalf("request %+v", req)
		}
	})
}
