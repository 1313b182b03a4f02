package http1

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// startRecheck starts a TLS server whose handler, for a request with the header Wait, sends to
// arrived and then waits for a value of release.
func startRecheck(t *testing.T) (r *running, conf *tls.Config, arrived, release chan struct{}) {
	t.Helper()
	arrived, release = make(chan struct{}), make(chan struct{})
	cert, pool := certificate(t)
	r = start(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Wait") != "" {
			arrived <- struct{}{}
			<-release
		}
		who(w, req)
	}, func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool, NextProtos: []string{"h2", "http/1.1"}}
		o.Fallback.Protocols = new(http.Protocols)
		o.Fallback.Protocols.SetHTTP1(true)
		o.Fallback.Protocols.SetHTTP2(true)
	})
	return r, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}, arrived, release
}

func none(*tls.ConnectionState) bool { return false }

// Connections that are no longer valid are closed: idle ones at once, busy ones after their
// request. Valid ones stay open.
func TestRecheckEndsHTTP1Connections(t *testing.T) {
	for name, form := range map[string]func(lines ...string) string{
		"front": func(lines ...string) string { return post("x", lines...) },
		"net/http": func(lines ...string) string {
			return "GET /other HTTP/1.1\r\n" + strings.Join(append([]string{"Host: a"}, lines...), "\r\n") + "\r\n\r\n"
		},
		"handed over with bytes that were read": func(lines ...string) string {
			return "POST /mcp HTTP/1.1\r\n" + strings.Join(append([]string{"Host: a", "Transfer-Encoding: chunked"}, lines...), "\r\n") + "\r\n\r\n0\r\n\r\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, conf, arrived, release := startRecheck(t)
			idle, kept := dialTLS(t, r.addr, conf), dialTLS(t, r.addr, conf)
			for _, c := range []*client{idle, kept} {
				c.send("%s", form())
				if resp, _ := c.answer(); resp.Close && !strings.HasPrefix(name, "handed") {
					t.Fatal("the connection is not kept")
				}
			}
			busy := dialTLS(t, r.addr, conf)
			busy.send("%s", form("Wait: yes"))
			<-arrived
			r.Recheck(func(*tls.ConnectionState) bool { return true })
			if !strings.HasPrefix(name, "handed") { // responses in chunks close the connection in any case
				kept.send("%s", form())
				if resp, _ := kept.answer(); resp.StatusCode != 200 {
					t.Errorf("a valid connection: %s", resp.Status)
				}
			}
			r.Recheck(none)
			idle.ended()
			kept.ended()
			release <- struct{}{}
			if resp, body := busy.answer(); resp.StatusCode != 200 || !strings.HasSuffix(body, "caller") {
				t.Errorf("the request that ran: %s %q", resp.Status, body)
			}
			busy.ended()
		})
	}
}

// A request of which only a part of the header has arrived is not served.
func TestRecheckRefusesHalfAHeader(t *testing.T) {
	r, conf, _, _ := startRecheck(t)
	c := dialTLS(t, r.addr, conf)
	text := post("x")
	c.send("%s", text[:20])
	eventuallyBusy(t, r)
	r.Recheck(none)
	_, _ = io.WriteString(c, text[20:])
	c.ended()
}

// eventuallyBusy waits until the server has read the beginning of a request.
func eventuallyBusy(t *testing.T, r *running) {
	t.Helper()
	for range 1_000_000 {
		r.mu.Lock()
		for c := range r.conns {
			if c.state.Load() == busy {
				r.mu.Unlock()
				return
			}
		}
		r.mu.Unlock()
	}
	t.Fatal("no connection is busy")
}

// Over HTTP/2 the request in flight is completed, and no further one is served.
func TestRecheckEndsHTTP2Connections(t *testing.T) {
	r, conf, arrived, release := startRecheck(t)
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: conf, MaxConnsPerHost: 1}
	defer tr.CloseIdleConnections()
	ask := func(wait string) (string, error) {
		req, err := http.NewRequest(http.MethodPost, "https://"+r.addr+"/mcp", strings.NewReader("x"))
		if err != nil {
			return "", err
		}
		req.Header.Set("Wait", wait)
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(b)), err
	}
	type outcome struct {
		text string
		err  error
	}
	ran := make(chan outcome, 1)
	go func() {
		text, err := ask("yes")
		ran <- outcome{text, err}
	}()
	<-arrived
	r.Recheck(none)
	if text, err := ask(""); err != nil || !strings.HasPrefix(text, "421 ") {
		t.Errorf("a request beside it: %q, %v", text, err)
	}
	release <- struct{}{}
	if got := <-ran; got.err != nil || got.text != "200 front=false HTTP/2.0 true caller" {
		t.Errorf("the request that ran: %q, %v", got.text, got.err)
	}
	if n := passedConns(r); n > 1 {
		t.Errorf("%d connections", n)
	}
}

// An idle HTTP/2 connection is closed; one that became idle after the check is closed after its
// last response is sent.
func TestRecheckEndsIdleHTTP2Connections(t *testing.T) {
	for _, during := range []bool{false, true} {
		t.Run(fmt.Sprint("check during the request: ", during), func(t *testing.T) {
			r, conf, arrived, release := startRecheck(t)
			ended := make(chan struct{})
			tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: conf, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &endingConn{Conn: c, ended: ended}, err
			}}
			defer tr.CloseIdleConnections()
			req, err := http.NewRequest(http.MethodPost, "https://"+r.addr+"/mcp", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			if during {
				req.Header.Set("Wait", "yes")
				go func() {
					<-arrived
					r.Recheck(none)
					release <- struct{}{}
				}()
			}
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(body) != "front=false HTTP/2.0 true caller" {
				t.Fatalf("%q, %v", body, err)
			}
			if !during {
				r.Recheck(none)
			}
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the connection stays open")
			}
		})
	}
}

func passedConns(r *running) int {
	r.passed.mu.Lock()
	defer r.passed.mu.Unlock()
	return len(r.passed.conns)
}

// endingConn reports when its client closes it, which the transport does when the server has
// closed the connection.
type endingConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

func (c *endingConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}
