package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
)

const (
	// minWait and maxWait bound the backoff between attempts to connect.
	minWait = 250 * time.Millisecond
	maxWait = 2 * time.Second
	// maxRefusal bounds the bytes that are read of an unsuccessful response.
	maxRefusal = 1 << 20
)

func newClient(t http.RoundTripper) *http.Client {
	if t == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = 32
		t = own
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// outgoing is one HTTP request to the endpoint.
type outgoing struct {
	method  string
	body    []byte
	header  http.Header // in addition to the header fields of every request
	session mcp.Session
	sent    func() // called once when the request was written; may be nil
}

// do sends a request. Attempts to connect are repeated while the gateway restarts. Once
// anything was sent, the request is not repeated, except after a 401 when the file or
// variable has another key.
func (b *bridge) do(ctx context.Context, o *outgoing) (*http.Response, error) {
	deadline, wait, rekeyed := time.Now().Add(b.o.Patience), minWait, false
	for {
		key := b.currentKey()
		resp, err := b.attempt(ctx, o, key)
		switch {
		case err == nil && resp.StatusCode == http.StatusUnauthorized && !rekeyed && b.rekey(key):
			rekeyed = true
			discard(resp)
			continue
		case err == nil:
			return resp, nil
		case !isDial(err) || ctx.Err() != nil || time.Now().Add(wait).After(deadline):
			return nil, hostname.WithoutURL(err)
		}
		if !retry.Wait(ctx, wait) {
			return nil, context.Cause(ctx)
		}
		wait = min(2*wait, maxWait)
	}
}

// attempt sends a request once.
func (b *bridge) attempt(ctx context.Context, o *outgoing, key string) (*http.Response, error) {
	if o.sent != nil {
		once := sync.OnceFunc(o.sent)
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { once() }})
	}
	req, err := http.NewRequestWithContext(ctx, o.method, b.o.URL, bytes.NewReader(o.body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("Accept", "application/json, text/event-stream")
	if o.method == http.MethodGet {
		h.Set("Accept", mediaEvents)
	}
	if o.method == http.MethodPost {
		h.Set("Content-Type", "application/json")
	}
	h.Set("User-Agent", "svc-connect/"+b.o.Version)
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	if o.session.ID != "" {
		h.Set(mcp.HeaderSession, o.session.ID)
	}
	if o.session.Version != "" {
		h.Set(mcp.HeaderProtocolVersion, o.session.Version)
	}
	for name, values := range o.header {
		h[name] = values
	}
	return b.client.Do(req)
}

func (b *bridge) currentKey() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.key
}

// rekey reads the key again after used was rejected, and reports whether it has changed.
func (b *bridge) rekey(used string) bool {
	key, err := b.o.Key()
	if err != nil {
		b.logf("the key cannot be read again: %v", err)
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.key = key
	return key != used
}

// isDial reports whether no connection was made, so that nothing was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// discard closes a response so that its connection can be reused.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	resp.Body.Close()
}

// readBounded reads a body of at most limit bytes.
func readBounded(body io.Reader, limit int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("the response has more than %d bytes", limit)
	}
	return data, nil
}

const mediaEvents = "text/event-stream"

func isMedia(resp *http.Response, media string) bool {
	essence, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(essence), media)
}
