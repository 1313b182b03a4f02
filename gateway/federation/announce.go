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

// Intervals of the subscriptions at upstreams.
const (
	// linger is how long the subscriptions stay open after the last watching client has left,
	// because clients reopen their streams.
	linger     = 30 * time.Second
	minHearing = time.Second
	maxHearing = time.Minute
	// longHearing is the duration from which a subscription counts as a success, so that the
	// backoff starts again.
	longHearing = time.Minute
	// afterRefusal is the pause after an upstream has refused a subscription.
	afterRefusal = 5 * time.Minute
)

// announcements subscribes to the lists of every upstream while clients watch, with the gateway's
// own credentials. A client of 2026-07-28 has no session at an upstream, and one with sessions
// has none at an upstream that it has not called, so no other stream could notify them.
func (f *Federation) announcements(ctx context.Context) {
	for f.watchers.await(ctx, true) {
		listening, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for _, u := range f.opts.Upstreams {
			if u.Announcing != nil && !u.Config.IsProcess() { // a program notifies the gateway in any case
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

// hear handles the notifications of one upstream, until ctx ends.
func (f *Federation) hear(ctx context.Context, u Upstream) {
	defer f.contain("subscription to lists", u.Config.Name)
	client := mcpclient.Client{Transport: u.Announcing, Name: agent + "-listen"}
	params := f.listenParams(map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
	name := u.Config.Name
	for fails := 0; ctx.Err() == nil; {
		began := f.opts.Now()
		err := client.Subscribe(ctx, params, &upstream.Timeouts{FirstByte: f.opts.Config.ListTimeout}, func(m *mcp.Message) {
			if m.Method == mcp.NotificationAcknowledged {
				f.readAgain(name) // read the changes from before the subscription
			}
			f.Announced(name, m)
		})
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, upstream.ErrNoSubject), errors.Is(err, mcpclient.ErrRejected):
			// The upstream sends the gateway no notifications: its lists are only read at
			// intervals.
			f.opts.Logger.Debug("an upstream announces no changes to the gateway", "upstream", name, "error", err)
			rest(ctx, afterRefusal)
			continue
		}
		if fails++; f.opts.Now().Sub(began) >= longHearing {
			fails = 1
		}
		rest(ctx, backoff.After(fails, minHearing, maxHearing))
		if err == nil {
			f.Changed(name) // notifications in between were missed
		}
	}
}

// contain recovers a panic of a goroutine, which would end the process; it must be deferred.
func (f *Federation) contain(what, upstream string) {
	if p := recover(); p != nil {
		f.opts.Logger.Error("panic", "in", "federation: "+what, "upstream", upstream, "panic", p, "stack", string(debug.Stack()))
	}
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
