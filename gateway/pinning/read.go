package pinning

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"svc/gateway/backoff"
	"svc/gateway/catalog"
	"svc/gateway/lister"
	"svc/gateway/transport"
)

const agent = "svc-pins"

// Timing of readings.
const (
	// readTime bounds one reading, and therefore the time that a call waits for the first
	// reading.
	readTime = 10 * time.Second
	// maxAge is how long the list of a caller is trusted without reading it again.
	maxAge       = 5 * time.Minute
	minAgain     = 5 * time.Second // minimum between readings after a response with other definitions
	firstBackoff = 30 * time.Second
	maxBackoff   = 30 * time.Minute
)

// Run reads the lists of upstreams periodically until ctx ends. With federation, package
// federation reads them, and Run returns at once. It returns when all its goroutines have
// ended, and may be called once.
func (g *Guard) Run(ctx context.Context) {
	if g == nil || g.federated {
		return
	}
	var wg sync.WaitGroup
	for _, u := range g.order {
		if !u.perCaller {
			wg.Go(func() { g.follow(ctx, u) })
		}
	}
	wg.Wait()
}

// follow reads the lists of one upstream until ctx ends.
func (g *Guard) follow(ctx context.Context, u *guarded) {
	fails := 0
	for ctx.Err() == nil {
		pause := g.interval
		if err := g.read(ctx, u, nil); err != nil && ctx.Err() == nil {
			fails++
			pause = backoff.After(fails, firstBackoff, maxBackoff)
			g.opts.Logger.Warn("the definitions of an upstream could not be read", "upstream", u.name, "again_in", pause.String(), "error", err)
		} else {
			fails = 0
		}
		u.wait(ctx, pause)
	}
}

// wait returns after a pause, and earlier when a reading is requested, but not before
// minAgain has passed.
func (u *guarded) wait(ctx context.Context, pause time.Duration) {
	soonest, latest := time.NewTimer(min(pause, minAgain)), time.NewTimer(pause)
	defer soonest.Stop()
	defer latest.Stop()
	select {
	case <-ctx.Done():
		return
	case <-soonest.C:
	}
	select {
	case <-ctx.Done():
	case <-latest.C:
	case <-u.again:
	}
}

// ready reads the lists of an upstream if they are not known yet: as listed to the
// gateway, or to a caller where each has its own. Concurrent calls share one reading.
func (g *Guard) ready(ctx context.Context, u *guarded, c *transport.Caller) error {
	if u.known(c, g.opts.Now()) {
		return nil
	}
	select {
	case <-u.reading:
		defer func() { u.reading <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if u.known(c, g.opts.Now()) {
		return nil
	}
	if !u.perCaller {
		c = nil
	}
	return g.read(ctx, u, c)
}

// read reads the lists of an upstream. A panic is treated like any other failure.
func (g *Guard) read(ctx context.Context, u *guarded, c *transport.Caller) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.opts.Logger.Error("panic", "in", "pins", "upstream", u.name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var l lister.Lister = u.reader
	l.Caller = c.Clone()
	offer, err := l.Read(ctx, catalog.Tool, catalog.Prompt)
	if err != nil {
		return err
	}
	g.Note(u.name, c, offer)
	return nil
}
