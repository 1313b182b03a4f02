package translate

import (
	"context"
	"sync"

	"svc/gateway/upstream"
)

// Upstreams are all upstreams of a configuration, usable by clients of both generations.
type Upstreams struct {
	transports []*Transport
	replicas   *Exchange
}

// Open makes open upstreams usable by clients of both generations: it wraps the
// transport of each. It sets Upstream, Direct, Replicas and the limits of opts.
//
// shared returns the store that replicas share, false if there is none; it is called
// only when a store is needed.
func Open(configs []upstream.Config, opened map[string]*upstream.Upstream, opts Options, shared func() (Store, bool)) (*Upstreams, error) {
	u := new(Upstreams)
	var err error
	if u.replicas, err = NewHandover(shared, opts.Key, opts.Logger); err != nil {
		return u, err
	}
	opts.Replicas, opts.Holds, opts.Questions = u.replicas, NewHolds(), NewQuestions()
	for i := range configs {
		c := &configs[i]
		up := opened[c.Name]
		opts.Upstream, opts.Direct = c, up.Direct
		translating, err := New(opts)
		if err != nil {
			return u, err
		}
		up.Transport = translating
		u.transports = append(u.transports, translating)
	}
	return u, nil
}

// Run runs all transports until ctx ends.
func (u *Upstreams) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { u.replicas.Run(ctx) })
	for _, t := range u.transports {
		wg.Go(func() { t.Run(ctx) })
	}
	wg.Wait()
}
