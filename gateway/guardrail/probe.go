package guardrail

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// maxProbes bounds the probes under way at a time.
const maxProbes = 16

// Probed is what a probe found of one endpoint.
type Probed struct {
	// Name is that of the endpoint.
	Name string
	// Status is the HTTP status; 0 when there was no answer.
	Status int
	// Latency is how long the answer, or the failure, took.
	Latency time.Duration
	// Err says why there was no answer. It never holds the URL, which may come
	// from the environment.
	Err error
	// Unchecked tells that nothing was asked: the files of the TLS block cannot
	// be used.
	Unchecked bool
}

// Reachable reports whether the endpoint answered with a status below 500.
func (p Probed) Reachable() bool { return p.Err == nil && p.Status < 500 }

// Probe asks each endpoint with a plain GET whether it is there (gateway
// specification, guardrails): without its static headers, whatever breakers
// say, for at most its time-out. The results are in the order of the section.
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
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no answer within %s", c.Timeout))
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
		p.Status = resp.StatusCode
	case ctx.Err() != nil:
		p.Err = context.Cause(ctx)
	default:
		p.Err = err
	}
	return p
}
