//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// answer is the result of a request: a status with its body, or a network error.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
	url    string
}

// kind is a short name of the failure; empty for a success.
func (a answer) kind() string {
	var timeout net.Error
	switch {
	case a.err == nil && a.status < 400:
		return ""
	case a.err == nil:
		return fmt.Sprint(a.status)
	case errors.Is(a.err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(a.err, &timeout) && timeout.Timeout(), errors.Is(a.err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(a.err, syscall.EHOSTUNREACH):
		return "unreachable"
	}
	return "broken" // the connection ended before the response was complete
}

// client sends requests to several equivalent servers, and switches to the next one when
// one fails, like a load balancer.
type client struct {
	urls  []string
	http  *http.Client
	limit time.Duration
	next  atomic.Int64
}

func newClient(from *host, urls []string, limit time.Duration) *client {
	return &client{urls: urls, limit: limit, http: &http.Client{Transport: &http.Transport{
		DialContext: from.dial, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second,
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// once sends a request to one of the servers.
func (c *client) once(ctx context.Context, server int, method, path string, header http.Header, body []byte) answer {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	url := c.urls[server%len(c.urls)]
	req, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err, url: url}
	}
	for k, v := range header {
		req.Header[k] = v
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{err: err, url: url}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	return answer{status: res.StatusCode, header: res.Header, body: text, err: err, url: url}
}

// send sends a request to the server that responded last. After a network error, or a
// status of 500 or more, the next request goes to another server.
func (c *client) send(ctx context.Context, method, path string, header http.Header, body []byte) answer {
	server := c.next.Load()
	a := c.once(ctx, int(server), method, path, header, body)
	if a.err != nil || a.status >= 500 {
		c.next.CompareAndSwap(server, server+1)
	}
	return a
}

// rest is a client of the control planes.
type rest struct {
	*client
	c   *cluster
	key string
}

func newREST(c *cluster, key string) *rest {
	return &rest{client: newClient(c.caller, c.planeURLs(), 10*time.Second), c: c, key: key}
}

func (r *rest) header(more ...string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + r.key}, "Content-Type": {"application/json"}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// specified reports whether a control plane's response is documented for an unavailable
// part.
func specified(a answer) error {
	if a.err != nil || a.status < 400 {
		return nil
	}
	var body struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || body.Error == "" {
		return fmt.Errorf("%d without an error in JSON: %.200q", a.status, a.body)
	}
	if a.status != 503 && a.status != 429 {
		return fmt.Errorf("%d %s", a.status, body.Error)
	}
	if a.header.Get("Retry-After") == "" {
		return fmt.Errorf("%d without Retry-After: %s", a.status, body.Error)
	}
	return nil
}

// must sends a request until it succeeds, for at most a minute, and decodes data of the
// response.
func (r *rest) must(method, path string, body, into any, more ...string) error {
	raw := []byte(nil)
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return until(time.Minute, func() error {
		a := r.send(context.Background(), method, path, r.header(more...), raw)
		if a.err != nil {
			return a.err
		}
		if a.status >= 400 {
			return fmt.Errorf("%s %s: %d %.300s", method, path, a.status, a.body)
		}
		if into == nil {
			return nil
		}
		// Budgets and targets have no envelope.
		var envelope struct {
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(a.body, &envelope); err != nil {
			return err
		}
		if envelope.Data == nil {
			envelope.Data = a.body
		}
		return json.Unmarshal(envelope.Data, into)
	})
}

// planesReady reports why a control plane does not serve.
func (c *cluster) planesReady() error { return c.ready("plane", planePort) }

// gatewaysReady reports why a gateway does not serve.
func (c *cluster) gatewaysReady() error { return c.ready("gateway", gatewayPort) }

func (c *cluster) ready(role, port string) error {
	for _, p := range c.role(role) {
		one := newClient(c.operator, []string{"http://" + p.host.address + ":" + port}, 2*time.Second)
		a := one.once(context.Background(), 0, "GET", "/readyz", nil, nil)
		one.close()
		if a.err != nil || a.status != 200 {
			return fmt.Errorf("%s is not ready: %d %v", p.name, a.status, a.err)
		}
	}
	return nil
}

// member returns a member of an object if it is a string.
func member(text, name string) (string, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return "", err
	}
	if data, ok := object["data"].(map[string]any); ok {
		object = data
	}
	if s, ok := object[name].(string); ok {
		return s, nil
	}
	return "", fmt.Errorf("no %s in %s", name, strings.TrimSpace(text))
}
