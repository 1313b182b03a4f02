package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"svc/test/certtest"
)

// serveBriefly runs a daemon with one server with short write timeouts.
func serveBriefly(t *testing.T, h http.Handler, conf *tls.Config, opts ...ListenOption) net.Addr {
	t.Helper()
	d := New(Options{CloseTimeout: 5 * time.Second})
	addr, err := d.Listen("t", "127.0.0.1:0", h, conf, append(opts, func(s *server) { s.writeTimeout, s.h2WriteTimeout = 100*time.Millisecond, 100*time.Millisecond })...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return addr
}

// The connection of a client that sends requests and never reads is closed, also in
// net/http, and so is that of a client that does not read one long response.
func TestClientsThatDoNotReadAreCut(t *testing.T) {
	failed := make(chan error, 16)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			failed <- err
			return
		}
		io.WriteString(w, strings.Repeat("x", 1000))
	})
	ca := certtest.New(t, t.TempDir(), "ca")
	withTLS := &tls.Config{Certificates: []tls.Certificate{ca.Certificate}}
	for name, tt := range map[string]struct {
		conf *tls.Config
		opts []ListenOption
	}{
		"net/http": {}, "front": {opts: []ListenOption{Calls("/mcp")}},
		"net/http, TLS": {conf: withTLS}, "front, TLS": {withTLS, []ListenOption{Calls("/mcp")}},
	} {
		addr := serveBriefly(t, h, tt.conf, tt.opts...)
		for _, path := range []string{"/healthz", "/long"} {
			t.Run(name+" "+path, func(t *testing.T) {
				c, err := net.Dial("tcp", addr.String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if tt.conf != nil {
					c = tls.Client(c, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
				}
				c.SetDeadline(time.Now().Add(20 * time.Second))
				requests := bytes.Repeat([]byte("GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"), 1000)
				for err == nil {
					_, err = c.Write(requests) // until the server closes the connection
				}
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("still connected: %v", err)
				}
				if path == "/long" {
					<-failed
				}
			})
		}
	}
}

// A stream of an HTTP/2 client that grants it no flow control window is ended.
func TestStreamsOfHTTP2ThatAreNotReadAreCut(t *testing.T) {
	failed := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, 1<<20))
		failed <- err
	})
	ca := certtest.New(t, t.TempDir(), "ca")
	addr := serveBriefly(t, h, &tls.Config{Certificates: []tls.Certificate{ca.Certificate}}, Calls("/mcp"))
	c, err := tls.Dial("tcp", addr.String(), &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go io.Copy(io.Discard, c)
	io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, nil)
	f.WriteSettings()
	// :method GET, :scheme https, :path /, :authority a, of the static table.
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82, 0x87, 0x84, 0x41, 1, 'a'}, EndStream: true, EndHeaders: true})
	if err := <-failed; err == nil {
		t.Error("an answer that nobody took was written")
	}
}

// A handler's own write deadline is not extended.
func TestAWriteDeadlineOfTheHandlerStands(t *testing.T) {
	failed := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "late")
		failed <- control.Flush()
	})
	addr := serveBriefly(t, h, nil)
	resp, err := http.Get(BaseURL(addr, false))
	if err == nil {
		resp.Body.Close()
	}
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// One address has a bounded number of connections, and can open another one after
// closing one. The log has one line about it.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	two := MaxPerAddress(func(netip.Addr) int { return 2 })
	for _, opts := range [][]ListenOption{{two}, {two, Calls("/mcp")}} {
		addr := serveBriefly(t, http.HandlerFunc(ok), nil, opts...)
		ask := func() (net.Conn, error) {
			c, err := net.Dial("tcp", addr.String())
			if err != nil {
				return nil, err
			}
			c.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			_, err = c.Read(make([]byte, 1))
			return c, err
		}
		first, err := ask()
		second, err2 := ask()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if c, err := ask(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d options: a third connection was served, %v", len(opts), err)
		} else {
			c.Close()
		}
		first.Close()
		for { // the server detects the end later
			c, err := ask()
			c.Close()
			if err == nil {
				break
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		second.Close()
	}
}
