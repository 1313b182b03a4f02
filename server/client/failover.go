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
	// returnAfter is how long a client stays with another control plane before it looks
	// whether an earlier one of its list responds again.
	returnAfter = time.Minute
	// returnTimeout bounds that look.
	returnTimeout = 5 * time.Second
)

// WithOthers names further control planes of the same store. A request that one of them
// does not answer, or answers with a status of 500 or more, is sent to the next where it
// may be made twice, and the client stays with the one that answered. From a minute later on it asks in the
// background whether an earlier one is ready, and returns to it. Streams and exports do
// not change over by themselves. moved is told of each change; nil is told nothing.
func WithOthers(moved func(from, to string, cause error), baseURLs ...string) Option {
	return func(c *Client) {
		for _, u := range baseURLs {
			c.planes.bases = append(c.planes.bases, trimBase(u))
		}
		c.planes.moved = moved
	}
}

// auditHeadsPath takes the heads of audit chains.
const auditHeadsPath = "/api/audit/heads"

// planes are the control planes of a client, the preferred first. It is safe for
// concurrent use.
type planes struct {
	bases   []string
	moved   func(from, to string, cause error)
	current atomic.Int32
	// since is when current last changed or was last compared with the earlier ones, in
	// nanoseconds since 1970.
	since atomic.Int64
}

// trimBase makes the forms of a base address one.
func trimBase(u string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u, "/"), "/api"), "/")
}

// base is the address that requests go to at present.
func (p *planes) base() string { return p.bases[p.current.Load()] }

// use moves from one control plane to another, unless another request has done so.
func (p *planes) use(from, to int32, cause error) {
	if from == to || !p.current.CompareAndSwap(from, to) {
		return
	}
	p.since.Store(time.Now().UnixNano())
	if p.moved != nil {
		p.moved(p.bases[from], p.bases[to], cause)
	}
}

// repeatable reports whether a request may be made twice: at the first control plane it
// may have had its effect although no answer came.
func repeatable(method, path string, h http.Header) bool {
	return method != http.MethodPost || h.Get("Idempotency-Key") != "" || h.Get("Svc-Batch-Id") != "" || path == auditHeadsPath // the same head may be reported again
}

// overAll makes an attempt, and after a failure of the control plane, where that may be,
// one at each other.
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
			return err // the next request begins at the next control plane
		}
	}
	return err
}

// failsOver reports whether another control plane may do better: this one did not
// answer, or could not. What the caller gave up says nothing about it.
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

// lookBack asks the earlier control planes, in the background and one request at a time,
// whether they are ready, once the client has been away from them for a minute. Requests
// do not wait for it: a frozen one would hold them up.
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

// ready reports whether a control plane answers as one that works. A proxy may hide
// /readyz behind a status of 4xx.
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
