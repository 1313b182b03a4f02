package request

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/redis"
	"svc/gateway/refusal"
)

// Admission is the compiled configuration of admission. It is immutable.
type Admission struct {
	Origins *OriginRules
	Limit   Limit
}

// Limit is the input rate limit per client address; a nil store means no limit.
type Limit struct {
	Store             redis.Store
	RequestsPerSecond float64
	Burst             int
	// FailOpen admits a request while the store is unavailable.
	FailOpen bool
}

// Client is the client's address and its text.
type Client struct {
	Addr    netip.Addr
	Address string
}

// key returns the bucket of a client. The addresses of one IPv6 network share a bucket.
func (c *Client) key() redis.Key {
	text := c.Address
	if c.Addr.Is6() {
		text = http1.Network(c.Addr).String()
	}
	return redis.Key{Limit: redis.Input, Kind: "ip", Principal: text}
}

// take takes a token for a request.
func (l *Limit) take(ctx context.Context, c *Client, now time.Time) *refusal.Refusal {
	if l.Store == nil {
		return nil
	}
	ok, after, err := l.Store.Allow(ctx, c.key(), l.RequestsPerSecond, l.Burst, now)
	switch {
	case err != nil && !l.FailOpen:
		return refusal.InputRateStore.After(time.Second)
	case err == nil && !ok:
		return refusal.InputRate.After(after)
	}
	return nil
}

// Admit decides about a request for /mcp. hops is the value of [mcp.HeaderHops] for requests
// to upstreams.
func (r *Admission) Admit(ctx context.Context, req *http.Request, c *Client, now time.Time) (hops string, refused *refusal.Refusal) {
	if refused := r.Limit.take(ctx, c, now); refused != nil {
		return "", refused
	}
	if !r.Origins.Permit(req) {
		return "", &refusal.Origin
	}
	hops, ok := mcp.NextHop(req.Header[mcp.HeaderHops])
	if !ok {
		return "", &refusal.Loop
	}
	return hops, nil
}

// ServePublic serves document to a request that needs no credentials, from any configured origin,
// within the input rate limit.
func (r *Admission) ServePublic(w http.ResponseWriter, req *http.Request, c *Client, now time.Time, document http.Handler) {
	h := w.Header()
	r.Origins.AllowOrigin(h, req)
	if r.Limit.take(req.Context(), c, now) != nil {
		h["Retry-After"] = []string{"1"}
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if r.Origins.IsPreflight(req) && r.Origins.Permit(req) {
		r.Origins.AllowRequest(h, req)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	document.ServeHTTP(w, req)
}
