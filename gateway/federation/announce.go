package federation

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"svc/gateway/backoff"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/upstream"
)

// Times of the subscriptions at upstreams.
const (
	// linger is how long they stay after the last client that watches has left: clients
	// come back to their streams.
	linger     = 30 * time.Second
	minHearing = time.Second
	maxHearing = time.Minute
	// longHearing is how long a subscription lasts that is no failure to the next one.
	longHearing = time.Minute
	// afterRefusal is the pause after an upstream did not open one.
	afterRefusal = 5 * time.Minute
)

// announcements subscribes to the lists of every upstream while clients watch, with the
// credentials of the gateway's own: a client of 2026-07-28 has no session at an upstream,
// and one with sessions none at an upstream that it has not called, whose stream could
// announce a change.
func (f *Federation) announcements(ctx context.Context) {
	for f.watchers.await(ctx, true) {
		listening, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for _, u := range f.opts.Upstreams {
			if u.Announcing != nil && !u.Config.IsProcess() { // a program announces to the gateway anyway
				wg.Go(func() { f.hear(listening, u) })
			}
		}
		for f.watchers.await(ctx, false) {
			back, cancel := context.WithTimeout(ctx, linger)
			again := f.watchers.await(back, true)
			cancel()
			if !again {
				break
			}
		}
		stop()
		wg.Wait()
	}
}

// hear takes what one upstream announces, until ctx ends.
func (f *Federation) hear(ctx context.Context, u Upstream) {
	defer f.contain("subscription to lists", u.Config.Name)
	client := mcpclient.Client{Transport: u.Announcing, Name: agent + "-listen"}
	params := f.listenParams(map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
	name := u.Config.Name
	for fails := 0; ctx.Err() == nil; {
		began := f.opts.Now()
		err := client.Subscribe(ctx, params, &upstream.Timeouts{FirstByte: f.opts.Config.ListTimeout}, func(m *mcp.Message) {
			if m.Method == mcp.NotificationAcknowledged {
				f.readAgain(name) // what changed before the upstream began to announce
			}
			f.Announced(name, m)
		})
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, upstream.ErrNoSubject), errors.Is(err, mcpclient.ErrRejected):
			// It announces nothing to the gateway: its lists are read at their time.
			f.opts.Logger.Debug("an upstream announces no changes to the gateway", "upstream", name, "error", err)
			rest(ctx, afterRefusal)
			continue
		}
		if fails++; f.opts.Now().Sub(began) >= longHearing {
			fails = 1
		}
		rest(ctx, backoff.After(fails, minHearing, maxHearing))
		if err == nil {
			f.Changed(name) // what was announced in between is not known
		}
	}
}

// contain keeps a panic in a goroutine from ending the process; it is deferred.
func (f *Federation) contain(what, upstream string) {
	if p := recover(); p != nil {
		f.opts.Logger.Error("panic", "in", "federation: "+what, "upstream", upstream, "panic", p, "stack", string(debug.Stack()))
	}
}

// rest waits, or for the end of ctx.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
