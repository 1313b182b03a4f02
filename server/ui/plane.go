package ui

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"svc/server"
	"svc/server/client"
	"svc/store"
)

// client returns a client of the API in this process, which acts with a credential, for the browser of a request.
func (p *Page) client(r *http.Request, find func(context.Context) (store.Credential, error)) *client.Client {
	return client.New("http://localhost", "", client.WithTransport(&inProcess{p.o.API, find, netip.AddrPortFrom(p.peer(r), 0).String()}))
}

// inProcess carries requests to the API in the same process.
type inProcess struct {
	api  http.Handler
	find func(context.Context) (store.Credential, error)
	peer string // address of the browser, which administrators' events have
}

// RoundTrip calls the API. A stream is answered when its header is written, everything else as a whole.
func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.WithContext(server.WithCredential(ctx, t.find))
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), t.peer
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if !strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
		defer cancel()
		a := &answer{header: http.Header{}, status: http.StatusOK}
		t.api.ServeHTTP(a, r)
		return a.response(r, io.NopCloser(&a.body)), nil
	}
	in, out := io.Pipe()
	s := &stream{answer: answer{header: http.Header{}, status: http.StatusOK}, out: out, began: make(chan struct{})}
	go func() {
		defer cancel()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
			s.begin()
			out.Close()
		}()
		t.api.ServeHTTP(s, r)
	}()
	<-s.began
	return s.response(r, &streamBody{in, cancel}), nil
}

// answer is a response in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *answer) response(r *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: body, ContentLength: -1, Request: r}
}

// stream is a response that is read while it is written.
type stream struct {
	answer
	out   *io.PipeWriter
	began chan struct{}
	done  bool
}

func (s *stream) begin() {
	if !s.done {
		s.done = true
		close(s.began)
	}
}

func (s *stream) WriteHeader(status int) {
	s.status = status
	s.begin()
}

func (s *stream) Write(b []byte) (int, error) {
	s.begin()
	return s.out.Write(b)
}

// Flush does nothing: whoever reads the pipe has each write already.
func (s *stream) Flush() {}

// streamBody ends the request when it is closed.
type streamBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *streamBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
