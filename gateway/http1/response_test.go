package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// raw sends one request, which asks for the end of the connection, and returns the complete
// response.
func (r *running) raw(t *testing.T, text string) string {
	t.Helper()
	c := dial(t, r.addr)
	c.send("%s", text)
	b, err := io.ReadAll(c.r)
	if err != nil {
		t.Fatal(err)
	}
	return undated(string(b))
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("long ", 50_000)
	tests := []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		{"status alone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"},
		{"no content", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}, "HTTP/1.1 204 No Content\r\n\r\n"},
		{"no content with a length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(204)
		}, "HTTP/1.1 204 No Content\r\n\r\n"},
		{"not modified with a length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(304)
		}, "HTTP/1.1 304 Not Modified\r\n\r\n"},
		{"type found out with a length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "6")
			io.WriteString(w, "<html>")
		}, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 6\r\n\r\n<html>"},
		{"type found out of a long piece", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, long)
		}, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n3d090\r\n%s\r\n0\r\n\r\n", long)},
		{"body read behind the answer's beginning", func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			_, err := r.Body.Read(make([]byte, 1))
			io.WriteString(w, err.Error())
		}, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n21\r\nhttp: invalid Read on closed Body\r\n0\r\n\r\n"},
		{"body without a length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "a")
			io.WriteString(w, "b")
		}, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nab"},
		{"type found out", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
			"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 6\r\n\r\n<html>"},
		{"body with a length in pieces", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			w.Header().Set("Content-Type", "a")
			io.WriteString(w, "a")
			io.WriteString(w, "bc")
			if _, err := io.WriteString(w, "d"); !errors.Is(err, http.ErrContentLength) {
				panic(err)
			}
		}, "HTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 3\r\n\r\nabc"},
		{"long body with a length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(long)))
			w.Header().Set("Content-Type", "a")
			io.WriteString(w, long)
		}, "HTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 250000\r\n\r\n" + long},
		{"long body in pieces", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(long)))
			w.Header().Set("Content-Type", "a")
			io.WriteString(w, long[:10])
			io.WriteString(w, long[10:50_000])
			io.WriteString(w, long[50_000:])
		}, "HTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 250000\r\n\r\n" + long},
		{"stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			f := http.NewResponseController(w)
			f.Flush()
			io.WriteString(w, "one")
			f.Flush()
			io.WriteString(w, "two")
			io.WriteString(w, "three")
			f.Flush()
			io.WriteString(w, "end")
		}, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n8\r\ntwothree\r\n3\r\nend\r\n0\r\n\r\n"},
		{"long without a length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a")
			io.WriteString(w, "short")
			io.WriteString(w, long)
			io.WriteString(w, long[:5000])
		}, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n3d090\r\n%s\r\n1388\r\n%s\r\n0\r\n\r\n", long, long[:5000])},
		{"fields", func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["Z"], h["A"] = []string{" b\r\nEvil: c ", "d"}, []string{"e"}
			h["Bad name"] = []string{"f"}
			h["Transfer-Encoding"] = []string{"gzip"}
			h["Content-Length"] = []string{"nonsense"}
			w.WriteHeader(299)
			w.WriteHeader(500)
		}, "HTTP/1.1 299 status code 299\r\nA: e\r\nZ: b  Evil: c\r\nZ: d\r\nContent-Length: 0\r\n\r\n"},
		{"close asked for", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(400)
		}, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"},
		{"interim answer", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(404)
		}, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, tt.h)
			if got := r.raw(t, post("x", "Connection: close")); got != tt.want {
				t.Errorf("%.300q\nwant %.300q", got, tt.want)
			}
		})
	}
}

// A response that is shorter than its Content-Length closes the connection, because its client
// waits for the rest.
func TestShortAnswerEndsTheConnection(t *testing.T) {
	r := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "short")
	})
	if got := r.raw(t, post("x")); !strings.HasSuffix(got, "\r\n\r\nshort") {
		t.Errorf("%q", got)
	}
}

// Flushed data is at the client while the handler still runs.
func TestFlushReachesTheClient(t *testing.T) {
	next := make(chan struct{})
	r := start(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			io.WriteString(w, "frame\n")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-next
		}
	})
	c := dial(t, r.addr)
	c.send("%s", post("x"))
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 6)
	for range 3 {
		if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != "frame\n" {
			t.Fatalf("%q %v", buf, err)
		}
		next <- struct{}{}
	}
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) > 0 {
		t.Errorf("at the end %q %v", b, err)
	}
	c.send("%s", post("x")) // and the connection stays open
	go func() {
		for range 3 {
			next <- struct{}{}
		}
	}()
	if _, body := c.answer(); body != "frame\nframe\nframe\n" {
		t.Errorf("%q", body)
	}
}

// The connection of a client that does not read is closed; that of a client that reads slowly is
// not.
func TestClientThatDoesNotRead(t *testing.T) {
	ended := make(chan error, 1)
	r := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(64<<20))
		_, err := w.Write(make([]byte, 64<<20))
		ended <- err
	})
	r.writeTimeout = 200 * time.Millisecond
	c := dial(t, r.addr)
	c.send("%s", post("x"))
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("silent client: %v", err)
	}
	c = dial(t, r.addr)
	c.send("%s", post("x"))
	go func() {
		buf := make([]byte, 1<<20)
		for {
			if _, err := c.r.Read(buf); err != nil {
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	if err := <-ended; err != nil {
		t.Errorf("slow client: %v", err)
	}
}

// The deadlines of a handler apply, and end with its request.
func TestDeadlinesOfTheHandler(t *testing.T) {
	got := make(chan error, 1)
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(io.LimitReader(r.Body, 2))
		control := http.NewResponseController(w)
		switch string(b) {
		case "rd":
			control.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, err := io.ReadAll(r.Body)
			got <- err
		case "wr":
			control.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			_, err := w.Write(make([]byte, 64<<20))
			got <- err
		case "ok":
			control.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			control.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		}
	})
	for what, text := range map[string]string{"rd": request("Host: a", "Content-Length: 10") + "rd", "wr": post("wr")} {
		c := dial(t, r.addr)
		c.send("%s", text)
		if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		c.Close()
	}
	c := dial(t, r.addr)
	for range 2 {
		c.send("%s", post("ok"))
		c.answer()
		time.Sleep(40 * time.Millisecond)
	}
	if err := http.NewResponseController(&response{}).EnableFullDuplex(); !errors.Is(err, http.ErrNotSupported) {
		t.Error(err)
	}
}

func TestLargeBodies(t *testing.T) {
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		w.Write(b)
	})
	c := dial(t, r.addr)
	for _, n := range []int{maxHead, 100 << 10, 5 << 20} {
		body := bytes.Repeat([]byte("0123456789abcdef"), n/16)
		go io.WriteString(c, post(string(body)))
		if _, got := c.answer(); got != string(body) {
			t.Errorf("%d bytes: %d came back", n, len(got))
		}
	}
}

func TestListenerThatHasNoSockets(t *testing.T) {
	near, far := net.Pipe()
	ln := &pipes{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	ln.conns <- near
	s := NewServer(Options{Paths: []string{"/mcp"}, Handler: http.HandlerFunc(echo), Fallback: &http.Server{Handler: http.HandlerFunc(echo)}})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := newClient(t, far)
	c.send("%s", post("x"))
	if _, body := c.answer(); body != "front=false POST /mcp x" {
		t.Errorf("%q", body)
	}
	s.Close()
	<-served
}

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// When the response cannot be written, the context of its request ends, so that the handler can
// stop.
func TestContextEndsWithAFailedWrite(t *testing.T) {
	got := make(chan error, 1)
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		piece := make([]byte, 1<<20)
		for {
			if _, err := w.Write(piece); err != nil {
				got <- r.Context().Err()
				return
			}
		}
	})
	c := dial(t, r.addr) // the client stays connected, and reads nothing
	c.send("%s", post("x"))
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("the context says %v", err)
	}
}
