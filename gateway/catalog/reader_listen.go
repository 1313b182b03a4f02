package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
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

// wanted counts the streams of clients that wait for changes of lists.
type wanted struct {
	mu    sync.Mutex
	count int
	// turned is closed when the first stream begins or the last one ends; nil if no goroutine
	// waits for it.
	turned chan struct{}
}

func (w *wanted) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.count > 0
	if w.count += n; before != (w.count > 0) && w.turned != nil {
		close(w.turned)
		w.turned = nil
	}
}

// await waits until there are streams (some), or none; it returns false when ctx ends first.
func (w *wanted) await(ctx context.Context, some bool) bool {
	for {
		w.mu.Lock()
		if w.count > 0 == some {
			w.mu.Unlock()
			return ctx.Err() == nil
		}
		if w.turned == nil {
			w.turned = make(chan struct{})
		}
		turned := w.turned
		w.mu.Unlock()
		select {
		case <-turned:
		case <-ctx.Done():
			return false
		}
	}
}

// Want subscribes the gateway to changes of lists until stop is called.
func (r *Reader) Want() (stop func()) {
	r.wanted.add(1)
	return sync.OnceFunc(func() { r.wanted.add(-1) })
}

// announcements subscribes to the lists of every upstream while clients watch, with the gateway's
// own credentials. A client of 2026-07-28 has no session at an upstream, and one with sessions
// has none at an upstream that it has not called, so no other stream could notify them.
func (r *Reader) announcements(ctx context.Context) {
	for r.wanted.await(ctx, true) {
		listening, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for _, fd := range r.feeds {
			if fd.Announcing != nil && !fd.Config.IsProcess() { // a program notifies the gateway in any case
				wg.Go(func() { fd.hear(listening) })
			}
		}
		for r.wanted.await(ctx, false) {
			back, cancel := context.WithTimeout(ctx, linger)
			again := r.wanted.await(back, true)
			cancel()
			if !again {
				break
			}
		}
		stop()
		wg.Wait()
	}
}

// hear handles the notifications of the upstream, until ctx ends.
func (fd *Feed) hear(ctx context.Context) {
	fd.Subscribe(ctx, &Subscription{
		What: "lists", Notifications: map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true},
		Take: func(m *mcp.Message) {
			if m.Method == mcp.NotificationAcknowledged {
				fd.ReadAgain() // read the changes from before the subscription
			} else if mcp.MethodOf(m.Method).ListChanged {
				fd.reader.Changed(fd.Name, m.Method)
			}
		},
		Again: func() { fd.reader.Changed(fd.Name, "") }, // notifications in between were missed
	})
}

// Subscription is a subscriptions/listen at an upstream.
type Subscription struct {
	// What is its kind, for logs and the clientInfo.
	What string
	// Caller is the client that subscribes; nil for the gateway itself.
	Caller        *upstream.Caller
	Notifications map[string]any
	// Capabilities are those that the client declares, a JSON object; nil for none.
	Capabilities json.RawMessage
	// Take receives the notifications.
	Take func(*mcp.Message)
	// Again is called when the upstream has ended its stream, before it is opened again.
	Again func()
}

// Subscribe keeps a subscription open until ctx ends. A panic ends it.
func (fd *Feed) Subscribe(ctx context.Context, s *Subscription) {
	r := fd.reader
	defer r.contain("subscription to "+s.What, fd.Name)
	asking := client.Client{Transport: fd.Announcing, Name: agent + "-" + s.What, Caller: s.Caller}
	switch {
	case s.Capabilities != nil:
	case s.Caller == nil:
		s.Capabilities = json.RawMessage(declared)
	default:
		s.Capabilities = json.RawMessage("{}")
	}
	params, _ := json.Marshal(map[string]any{ // plain values can be encoded
		"_meta": map[string]any{
			mcp.MetaProtocolVersion:    mcp.Revision20260728,
			mcp.MetaClientInfo:         map[string]string{"name": agent, "version": r.opts.Version},
			mcp.MetaClientCapabilities: s.Capabilities,
		},
		"notifications": s.Notifications,
	})
	for fails := 0; ctx.Err() == nil; {
		began := r.opts.Now()
		err := asking.Subscribe(ctx, params, &upstream.Timeouts{FirstByte: r.opts.Timeout}, s.Take)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, upstream.ErrNoSubject), errors.Is(err, client.ErrRejected):
			level := slog.LevelWarn
			if s.Caller == nil { // lists are read at intervals in any case
				level = slog.LevelDebug
			}
			r.opts.Logger.Log(ctx, level, "an upstream refused a subscription", "to", s.What, "upstream", fd.Name, "error", err)
			retry.Wait(ctx, afterRefusal)
			continue
		}
		if fails++; r.opts.Now().Sub(began) >= longHearing {
			fails = 1
		}
		retry.Wait(ctx, retry.After(fails, minHearing, maxHearing))
		if err == nil {
			s.Again()
		}
	}
}
