package guardrail

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"svc/gateway/base/hostname"
)

// maxProbes bounds the number of concurrent probes.
const maxProbes = 16

// Probed is the result of probing one endpoint.
type Probed struct {
	// Name is the name of the endpoint.
	Name string
	// Status is the HTTP status; 0 when there was no response.
	Status int
	// Redirect describes where a redirect leads; empty for other responses.
	Redirect string
	// Latency is the time until the response, or the failure.
	Latency time.Duration
	// Err is the reason why there was no response. It never contains the URL, which may
	// come from the environment.
	Err error
	// Unchecked is set when no request was sent, because the files of the TLS section
	// cannot be used.
	Unchecked bool
}

// Reachable reports whether the endpoint responded with a status below 500.
func (p Probed) Reachable() bool { return p.Err == nil && p.Status < 500 }

// Probe sends a plain GET to each endpoint (gateway specification, guardrails): without
// its static headers, regardless of breakers, with its timeout. The results are in the
// order of the section.
func Probe(ctx context.Context, configs []Config, now func() time.Time) []Probed {
	found := make([]Probed, len(configs))
	places := make(chan struct{}, maxProbes)
	var wg sync.WaitGroup
	for i := range configs {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			found[i] = probe(ctx, &configs[i], now)
		})
	}
	wg.Wait()
	return found
}

func probe(ctx context.Context, c *Config, now func() time.Time) Probed {
	p := Probed{Name: c.Name}
	transport, err := newTransport(c)
	if err != nil {
		p.Err, p.Unchecked = err, true
		return p
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no response within %s", c.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		p.Err, p.Unchecked = errURL, true
		return p
	}
	req.Header.Set("User-Agent", userAgent)
	started := now()
	resp, err := transport.RoundTrip(req)
	p.Latency = now().Sub(started)
	switch {
	case err == nil:
		resp.Body.Close()
		p.Status, p.Redirect = resp.StatusCode, hostname.Redirects(resp.StatusCode, resp.Header.Get("Location"))
	case ctx.Err() != nil:
		p.Err = context.Cause(ctx)
	default:
		p.Err = err
	}
	return p
}
