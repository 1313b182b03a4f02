package daemon

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"svc/test/certtest"
)

// flood is a client of HTTP/2 that lets nothing of its responses through: its windows are closed.
type flood struct {
	net.Conn
	f    *http2.Framer
	head []byte
}

func newFlood(t testing.TB, addr net.Addr, conf *tls.Config, path string, more ...hpack.HeaderField) *flood {
	t.Helper()
	c, err := tls.Dial("tcp", addr.String(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	enc.SetMaxDynamicTableSize(0)
	for _, h := range append([]hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: path}, {Name: ":authority", Value: "a"}}, more...) {
		enc.WriteField(h)
	}
	fl := &flood{Conn: c, f: http2.NewFramer(c, c), head: head.Bytes()}
	io.WriteString(c, http2.ClientPreface)
	fl.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	return fl
}

// open sends n requests.
func (fl *flood) open(n int, from uint32) {
	var out bytes.Buffer
	f := http2.NewFramer(&out, nil)
	for i := range n {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: from + uint32(2*i), BlockFragment: fl.head, EndStream: true, EndHeaders: true})
	}
	fl.Write(out.Bytes()) // fails when the server has closed the connection
}

// HTTP/2 without a key: a connection has 16 running streams until one of its requests was
// identified, and then as many as the protocol allows.
func TestUnidentifiedConnectionsHaveFewStreams(t *testing.T) {
	const sent = 40
	began, identify, end := make(chan struct{}, sent), make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-identify:
			w.(interface{ Identified() }).Identified()
		case <-end:
		}
		<-end
	})
	ca := certtest.New(t, t.TempDir(), "ca")
	running := make(chan *inFlight, 1)
	addr := serveBriefly(t, h, &tls.Config{Certificates: []tls.Certificate{ca.Certificate}}, Calls("/mcp"), func(s *server) { running <- s.running })
	fl := newFlood(t, addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}}, "/x")
	go io.Copy(io.Discard, fl.Conn)
	fl.open(sent, 1)
	for range maxUnknownStreams {
		<-began
	}
	if n := (<-running).n.Load(); n != maxUnknownStreams {
		t.Errorf("%d streams run before one is identified, want %d", n, maxUnknownStreams)
	}
	identify <- struct{}{}
	for range sent - maxUnknownStreams {
		<-began
	}
	close(end)
}

// A bound of one layer does not multiply with another: the streams of an address without a key
// are counted together, over all its connections, and a connection beyond the bound is closed.
func TestUnidentifiedStreamsOfOneAddressAreBounded(t *testing.T) {
	end := make(chan struct{})
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end })
	ca := certtest.New(t, t.TempDir(), "ca")
	counts := make(chan *inFlight, 1)
	addr := serveBriefly(t, h, &tls.Config{Certificates: []tls.Certificate{ca.Certificate}}, Calls("/mcp"), func(s *server) { counts <- s.running })
	running := <-counts
	conf := &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}}
	const connections = maxUnknownOfAddress/maxUnknownStreams + 6
	closed := make(chan struct{}, connections)
	for range connections {
		fl := newFlood(t, addr, conf, "/x")
		fl.open(maxUnknownStreams+1, 1)
		go func() {
			io.Copy(io.Discard, fl.Conn)
			closed <- struct{}{}
		}()
	}
	<-closed
	if n := running.n.Load(); n > maxUnknownOfAddress {
		t.Errorf("%d streams of one address run, want at most %d", n, maxUnknownOfAddress)
	}
	close(end)
}

// Streams are counted for their address: with large headers as more than one, and not at all once a
// connection of an address without a bound of connections is identified.
func TestStreamsAreCounted(t *testing.T) {
	for _, free := range []bool{false, true} {
		s := &streams{open: map[netip.Prefix]count{}}
		c := &h2conn{of: s, free: free, slots: make(chan struct{}, maxUnknownStreams), identified: make(chan struct{})}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Large", strings.Repeat("x", 3*headerUnit))
		leave, ok := c.enter(r)
		if want := (count{4, 4}); !ok || s.open[c.addr] != want {
			t.Errorf("free %v: %v, counted %v, want %v", free, ok, s.open[c.addr], want)
		}
		c.identify()
		want := count{4, 0}
		if free {
			want = count{}
		}
		if s.open[c.addr] != want {
			t.Errorf("free %v: identified and counted %v, want %v", free, s.open[c.addr], want)
		}
		second, ok := c.enter(r)
		if !ok {
			t.Errorf("free %v: refused", free)
		}
		if full := c.add(maxAddressStreams); full != free {
			t.Errorf("free %v: beyond the bound of the address: %v", free, full)
		}
		leave()
		second()
		if len(s.open) != 0 {
			t.Errorf("free %v: %v is left", free, s.open)
		}
	}
}

// An answer over HTTP/2 that a closed window holds up ends, also one that the handler has left
// to net/http.
func TestAShortAnswerBehindAClosedWindowEnds(t *testing.T) {
	ca := certtest.New(t, t.TempDir(), "ca")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.(interface{ Identified() }).Identified()
		}
		io.WriteString(w, "ok")
	})
	addr := serveBriefly(t, h, &tls.Config{Certificates: []tls.Certificate{ca.Certificate}}, Calls("/mcp"))
	for _, path := range []string{"/healthz", "/known"} {
		fl := newFlood(t, addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}}, path)
		fl.SetDeadline(time.Now().Add(20 * time.Second))
		fl.open(1, 1)
		for {
			frame, err := fl.f.ReadFrame()
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if _, ok := frame.(*http2.RSTStreamFrame); ok {
				break
			}
		}
	}
}
