package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAnswers sends one response of raw bytes and checks the client's result, and
// whether it reuses the connection.
func TestAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	huge := strings.Repeat("x", 70<<10)
	tests := []struct {
		name   string
		answer string
		body   string
		status int
		kind   error // of Do or of reading the body
		reused bool
	}{
		{name: "content length", answer: ok + "Content-Length: 5\r\n\r\nhello", status: 200, body: "hello", reused: true},
		{name: "no body of length 0", answer: ok + "Content-Length: 0\r\n\r\n", status: 200, reused: true},
		{name: "status without reason", answer: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", status: 200, reused: true},
		{name: "status with empty reason", answer: "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", status: 200, reused: true},
		{name: "202 without body", answer: "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", status: 202, reused: true},
		{name: "204 has no body", answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, reused: true},
		{name: "204 that announces a body is not trusted again", answer: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", status: 204},
		{name: "204 chunked is not trusted again", answer: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 204},
		{name: "304 may announce a length", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304, reused: true},
		{name: "redirects are not followed", answer: "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", status: 302, reused: true},
		{name: "connection close", answer: ok + "Connection: foo, Close\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "HTTP/1.0 is not kept", answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "interim responses are passed over", answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok", status: 200, body: "ok", reused: true},
		{name: "endless interim responses", answer: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20) + ok + "Content-Length: 0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "101 switching protocols", answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", kind: ErrInvalidResponse},
		{name: "bytes behind the body", answer: ok + "Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n", status: 200, body: "hello"},
		{name: "bytes behind no body", answer: ok + "Content-Length: 0\r\n\r\nx", status: 200},
		{name: "space around the value", answer: ok + "Content-Length:  \t 2 \t\r\n\r\nok", status: 200, body: "ok", reused: true},

		{name: "both framings", answer: ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "two lengths that differ", answer: ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", kind: ErrInvalidResponse},
		{name: "two equal lengths", answer: ok + "Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello", kind: ErrInvalidResponse},
		{name: "list of lengths", answer: ok + "Content-Length: 5, 5\r\n\r\nhello", kind: ErrInvalidResponse},
		{name: "signed length", answer: ok + "Content-Length: +5\r\n\r\nhello", kind: ErrInvalidResponse},
		{name: "negative length", answer: ok + "Content-Length: -1\r\n\r\n", kind: ErrInvalidResponse},
		{name: "hexadecimal length", answer: ok + "Content-Length: 0x5\r\n\r\nhello", kind: ErrInvalidResponse},
		{name: "empty length", answer: ok + "Content-Length: \r\n\r\n", kind: ErrInvalidResponse},
		{name: "length beyond 63 bits", answer: ok + "Content-Length: 9223372036854775808\r\n\r\n", kind: ErrInvalidResponse},
		{name: "length beyond the limit", answer: ok + "Content-Length: 1048577\r\n\r\n", kind: ErrInvalidResponse},
		{name: "gzip encoding of the transfer", answer: ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "chunked twice", answer: ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "chunked in HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "compressed though identity was asked", answer: ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", kind: ErrInvalidResponse},
		{name: "identity encoding", answer: ok + "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok", reused: true},

		{name: "folded header", answer: ok + "X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "folded first header", answer: ok + " X-A: b\r\nContent-Length: 0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "space before the colon", answer: ok + "Content-Length : 5\r\n\r\nhello", kind: ErrInvalidResponse},
		{name: "no colon", answer: ok + "Content-Length\r\n\r\n", kind: ErrInvalidResponse},
		{name: "empty name", answer: ok + ": x\r\n\r\n", kind: ErrInvalidResponse},
		{name: "bare line feeds", answer: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello\r\n\r\n", kind: ErrInvalidResponse},
		{name: "bare carriage return in a value", answer: ok + "X-A: b\rContent-Length: 9\r\nContent-Length: 0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "NUL in a value", answer: ok + "X-A: b\x00c\r\nContent-Length: 0\r\n\r\n", kind: ErrInvalidResponse},
		{name: "not HTTP", answer: "SSH-2.0-OpenSSH_9.2\r\n\r\n", kind: ErrInvalidResponse},
		{name: "HTTP/2", answer: "HTTP/2.0 200 OK\r\n\r\n", kind: ErrInvalidResponse},
		{name: "short status line", answer: "HTTP/1.1\r\n\r\n", kind: ErrInvalidResponse},
		{name: "status of two digits", answer: "HTTP/1.1 20 OK\r\n\r\n", kind: ErrInvalidResponse},
		{name: "status of four digits", answer: "HTTP/1.1 2000\r\n\r\n", kind: ErrInvalidResponse},
		{name: "status 099", answer: "HTTP/1.1 099 No\r\n\r\n", kind: ErrInvalidResponse},
		{name: "status 600", answer: "HTTP/1.1 600 No\r\n\r\n", kind: ErrInvalidResponse},
		{name: "header without end", answer: ok + strings.Repeat("X-A: "+huge[:1000]+"\r\n", 1<<10), kind: ErrInvalidResponse},
		{name: "one endless header line", answer: ok + "X-A: " + strings.Repeat(huge, 20), kind: ErrInvalidResponse},
		{name: "too many fields", answer: ok + strings.Repeat("A: b\r\n", 300) + "\r\n", kind: ErrInvalidResponse},

		{name: "chunked", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", status: 200, body: "hello", reused: true},
		{name: "chunked in other case", answer: ok + "transfer-encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", status: 200, body: "0123456789", reused: true},
		{name: "chunked and empty", answer: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 200, reused: true},
		{name: "chunk extension", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2;a=\"b\"\r\nok\r\n0\r\n\r\n", status: 200, body: "ok", reused: true},
		{name: "trailers are discarded", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 7\r\n\r\n", status: 200, body: "ok", reused: true},
		{name: "bytes behind the last chunk", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1", status: 200, body: "ok"},
		{name: "chunk longer than said", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n", status: 200, body: "ok", kind: ErrInvalidResponse},
		{name: "chunk ended by a line feed", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\n0\r\n\r\n", status: 200, body: "ok", kind: ErrInvalidResponse},
		{name: "chunk size ended by a line feed", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n", status: 200, kind: ErrInvalidResponse},
		{name: "line feed in an extension", answer: ok + "Transfer-Encoding: chunked\r\n\r\n2;a\nok\r\n0\r\n\r\n", status: 200, kind: ErrInvalidResponse},
		{name: "chunk size with sign", answer: ok + "Transfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n", status: 200, kind: ErrInvalidResponse},
		{name: "chunk size with prefix", answer: ok + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n", status: 200, kind: ErrInvalidResponse},
		{name: "chunk size empty", answer: ok + "Transfer-Encoding: chunked\r\n\r\n\r\nok\r\n0\r\n\r\n", status: 200, kind: ErrInvalidResponse},
		{name: "chunk size of 64 bits", answer: ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nok", status: 200, kind: ErrInvalidResponse},
		{name: "endless chunk size", answer: ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 1<<10), status: 200, kind: ErrInvalidResponse},
		{name: "endless trailers", answer: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", 1<<10), status: 200, kind: ErrInvalidResponse},
		{name: "malformed trailer", answer: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nfoo\r\n\r\n", status: 200, kind: ErrInvalidResponse},
		{name: "more framing than data", answer: ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\na\r\n", 1<<10), status: 200, kind: ErrInvalidResponse},
		{name: "chunks beyond the limit", answer: ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+huge[:1<<16]+"\r\n", 20) + "0\r\n\r\n", status: 200, kind: ErrInvalidResponse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := answering(t, tt.answer)
			c := newTestClient(t, p.url())
			resp, body, err := do(c, post(`{}`))
			wantKind(t, err, tt.kind)
			if tt.status != 0 && (resp == nil || resp.Status != tt.status) {
				t.Fatalf("answer %+v, want status %d", resp, tt.status)
			}
			if tt.kind == nil && body != tt.body || !strings.HasPrefix(body, tt.body) {
				t.Errorf("body %.40q, want %q", body, tt.body)
			}
			if idle := c.Stats().Idle; (idle == 1) != tt.reused {
				t.Errorf("%d idle connections, want it kept: %v", idle, tt.reused)
			}
		})
	}
}

// TestAnswersByteByByte sends every kind of body one byte at a time.
func TestAnswersByteByByte(t *testing.T) {
	tests := []struct{ name, answer, body string }{
		{"content length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\nA: b\r\n\r\n", "hello"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := serving(t, func(c *peerConn, _ *http.Request, _ []byte) {
				for i := range len(tt.answer) {
					c.send(tt.answer[i : i+1])
					time.Sleep(20 * time.Microsecond)
				}
			})
			c := newTestClient(t, p.url())
			for range 3 {
				_, body, err := do(c, post(`{}`))
				if err != nil || body != tt.body {
					t.Fatalf("body %q, %v, want %q", body, err, tt.body)
				}
			}
			if n := p.accepted(); n != 1 {
				t.Errorf("%d connections, want the one to be used again", n)
			}
		})
	}
}

func TestBodyUntilConnectionEnds(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) {
		c.request()
		c.send("HTTP/1.1 200 OK\r\n\r\nhel")
		time.Sleep(5 * time.Millisecond)
		c.send("lo")
	})
	c := newTestClient(t, p.url())
	resp, body, err := do(c, post(`{}`))
	if err != nil || body != "hello" || resp.ContentLength != -1 {
		t.Fatalf("body %q of length %v, %v", body, resp, err)
	}
	if s := c.Stats(); s.Open != 0 {
		t.Errorf("%+v, want no connection", s)
	}
}

func TestHeaderKeepsOrderAndValues(t *testing.T) {
	p := answering(t, "HTTP/1.1 200 OK\r\nB: 1\r\nMcp-Session-Id: \xe4bc\r\nb: 2\r\nA:\r\nContent-Length: 0\r\n\r\n")
	resp, _, err := do(newTestClient(t, p.url()), post(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Values("b"); len(got) != 2 || got[0] != "1" || got[1] != "2" {
		t.Errorf("b is %q", got)
	}
	if got := resp.Header.Get("mcp-session-id"); got != "\xe4bc" {
		t.Errorf("session is %q", got)
	}
	if !resp.Header.Has("a") || resp.Header.Get("A") != "" || resp.Header.Has("c") {
		t.Errorf("header is %q", resp.Header)
	}
}

// Data that arrived with the header is delivered before BeforeWait's function is
// called; that is called before the connection is read again.
func TestBeforeWaitComesBeforeEachWait(t *testing.T) {
	for _, kind := range []struct{ name, header, first, rest string }{
		{"chunked", "Transfer-Encoding: chunked", "3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n"},
		{"by its length", "Content-Length: 6", "one", "two"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			waits := make(chan struct{}, 10)
			p := newPeer(t, func(_ int, c *peerConn) {
				c.request()
				c.send("HTTP/1.1 200 OK\r\n" + kind.header + "\r\n\r\n" + kind.first)
				<-waits
				c.send(kind.rest)
				c.wait()
			})
			resp, err := newTestClient(t, p.url()).Do(context.Background(), &HTTPRequest{Method: "POST"})
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			told := 0
			resp.BeforeWait(func() { told++; waits <- struct{}{} })
			got := make([]byte, 64)
			n, err := resp.Body.Read(got)
			if err != nil || string(got[:n]) != "one" || told != 0 {
				t.Fatalf("read %q, %v after %d waits; want what came with the header after none", got[:n], err, told)
			}
			rest, err := io.ReadAll(resp.Body)
			if err != nil || string(rest) != "two" || told == 0 {
				t.Errorf("read %q, %v after %d waits", rest, err, told)
			}
		})
	}
}

// An overloaded peer may respond as soon as it is connected, close its side and
// wait for the client to close. Its response is read without waiting for more.
func TestAnswerBeforeTheFirstRequest(t *testing.T) {
	answered := make(chan struct{})
	p := newPeer(t, func(_ int, c *peerConn) {
		c.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy")
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		close(answered)
		c.wait()
	})
	c := newTestClient(t, p.url())
	cn, err := c.pool.get(context.Background(), c.pool.now(), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.pool.discard(cn)
	<-answered
	time.Sleep(20 * time.Millisecond) // wait until the poller has the event
	cn.armFor(&c.pool, 2*time.Second)
	if _, err := cn.write(&writeBuffer{b: []byte("POST /mcp HTTP/1.1\r\n\r\n")}, nil); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, err := cn.read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 503 ") {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}
