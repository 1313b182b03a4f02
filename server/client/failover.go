package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// returnAfter is the time after which a client that uses another control plane checks whether an
	// earlier one of its list is ready again.
	returnAfter = time.Minute
	// returnTimeout bounds that check.
	returnTimeout = 5 * time.Second
)

// WithOthers adds further control planes of the same store. When one of them does not respond, or responds
// with a status of 500 or more, the request is sent to the next one if it may be repeated, and the client
// continues with the control plane that responded. From a minute later on, it checks in the background
// whether an earlier one is ready, and returns to it. Streams and exports do not fail over by themselves.
// moved, which may be nil, is called with each change.
func WithOthers(moved func(from, to string, cause error), baseURLs ...string) Option {
	return func(c *Client) {
		for _, u := range baseURLs {
			c.planes.bases = append(c.planes.bases, trimBase(u))
		}
		c.planes.moved = moved
	}
}

// auditHeadsPath is the endpoint for the heads of audit chains.
const auditHeadsPath = "/api/audit/heads"

// approvalsPath is the endpoint for approvals.
const approvalsPath = "/api/approvals"

// planes are the control planes of a client, the preferred one first. It is safe for concurrent use.
type planes struct {
	bases   []string
	moved   func(from, to string, cause error)
	current atomic.Int32
	// since is the time when current last changed or the earlier ones were last checked, in nanoseconds
	// since 1970.
	since atomic.Int64
}

// trimBase normalizes a base URL.
func trimBase(u string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u, "/"), "/api"), "/")
}

// base is the base URL for requests now.
func (p *planes) base() string { return p.bases[p.current.Load()] }

// use changes the current control plane, unless another request has already changed it.
func (p *planes) use(from, to int32, cause error) {
	if from == to || !p.current.CompareAndSwap(from, to) {
		return
	}
	p.since.Store(time.Now().UnixNano())
	if p.moved != nil {
		p.moved(p.bases[from], p.bases[to], cause)
	}
}

// repeatable reports whether a request may be repeated at another control plane: it may already have had
// its effect at the first one although no response came.
func repeatable(method, path string, h http.Header) bool {
	return method != http.MethodPost || h.Get("Idempotency-Key") != "" || h.Get("Svc-Batch-Id") != "" ||
		path == auditHeadsPath || strings.HasPrefix(path, approvalsPath) // the same head may be reported, and the same approval asked for, again
}

// overAll sends a request to the current control plane. When that fails and the request is repeatable, it
// tries each other one once.
func (c *Client) overAll(ctx context.Context, repeat bool, attempt func(base string) error) error {
	p := c.planes
	c.lookBack(ctx)
	var err error
	for range p.bases {
		at := p.current.Load()
		if err = attempt(p.bases[at]); !failsOver(ctx, err) {
			return err
		}
		p.use(at, (at+1)%int32(len(p.bases)), err)
		if !repeat || ctx.Err() != nil {
			return err // the next request starts with the next control plane
		}
	}
	return err
}

// failsOver reports whether another control plane should be tried: this one did not respond, or failed. A
// request that the caller canceled does not count as a failure.
func failsOver(ctx context.Context, err error) bool {
	var answer *Error
	switch {
	case err == nil, errors.Is(ctx.Err(), context.Canceled):
		return false
	case errors.As(err, &answer):
		return answer.Status >= http.StatusInternalServerError
	}
	return true
}

// lookBack checks in the background whether an earlier control plane is ready, once the client has used
// another one for a minute. At most one check runs at a time. Requests do not wait for it, because a frozen
// control plane would delay them.
func (c *Client) lookBack(ctx context.Context) {
	p := c.planes
	at, since, now := p.current.Load(), p.since.Load(), time.Now().UnixNano()
	if at == 0 || now-since < int64(returnAfter) || !p.since.CompareAndSwap(since, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
		defer cancel()
		for earlier := range at {
			if c.ready(ctx, p.bases[earlier]) {
				p.use(at, earlier, nil)
				return
			}
		}
	}()
}

// Ready returns nil when the control plane in use is ready: its store takes writes. An *Error means that it
// answers and is not ready.
func (c *Client) Ready(ctx context.Context) error {
	resp, err := c.probe(ctx, "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return answerError(resp)
	}
	return nil
}

// Alive returns nil when the control plane in use answers at all, whatever it answers.
func (c *Client) Alive(ctx context.Context) error {
	resp, err := c.probe(ctx, "/healthz")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// probe calls a probe of the control plane in use.
func (c *Client) probe(ctx context.Context, path string) (*http.Response, error) {
	r, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Del("Authorization") // probes need no key
	return c.http.Do(r)
}

// ready reports whether a control plane is ready. A proxy may answer /readyz with 4xx; that counts as
// ready.
func (c *Client) ready(ctx context.Context, base string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return false
	}
	r.Header.Set("User-Agent", c.userAgent)
	resp, err := c.http.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode < http.StatusInternalServerError
}
