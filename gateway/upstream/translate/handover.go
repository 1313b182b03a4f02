package translate

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"svc/gateway/base/retry"
)

const (
	takeWait        = 2 * time.Second // for one request to the store
	pause           = time.Second     // after the store failed
	mailTTL         = time.Minute     // of unread messages
	maxAtOnce       = 256             // messages that are handled concurrently
	maxHandoverText = 32 << 20        // in bytes
	// A replica is announced every announceEvery, and counts as absent after presentFor.
	announceEvery = 10 * time.Second
	presentFor    = 30 * time.Second
)

// Store is the store that replicas share.
type Store interface {
	// Put puts a text into a mailbox.
	Put(ctx context.Context, box, text string, ttl time.Duration) error
	// Take removes and returns the oldest text, waiting for one up to wait; ok is false
	// when none arrived.
	Take(ctx context.Context, box string, wait time.Duration) (text string, ok bool, err error)
	// Announce registers a replica as present, for ttl from now.
	Announce(ctx context.Context, replica string, ttl time.Duration) error
	// Present lists the present replicas, at most [MaxReplicas].
	Present(ctx context.Context) ([]string, error)
}

// MaxReplicas bounds the recipients of a broadcast.
const MaxReplicas = 64

// ErrNone is the error of a message to another replica when replicas share no store.
var ErrNone = errors.New("replicas share no store")

// Handler handles a message of another replica. ctx is canceled when the process ends.
type Handler func(ctx context.Context, body []byte)

// Exchange is one replica's endpoint. It is safe for concurrent use.
type Exchange struct {
	store    func() (Store, bool)
	aead     cipher.AEAD
	instance string
	log      *slog.Logger
	slots    chan struct{}

	mu       sync.RWMutex
	handlers map[string]Handler
}

// NewHandover returns the endpoint of a replica with a random name. store is called when the store
// is needed; it returns false if there is none.
func NewHandover(store func() (Store, bool), key []byte, log *slog.Logger) (*Exchange, error) {
	aead, err := newAEAD(key, "handover between replicas")
	if err != nil {
		return nil, err
	}
	return &Exchange{store: store, aead: aead, instance: rand.Text(), log: log, slots: make(chan struct{}, maxAtOnce), handlers: map[string]Handler{}}, nil
}

// Instance names this replica.
func (x *Exchange) Instance() string { return x.instance }

// Handle sets the handler of the messages of a kind. It must be called before Run.
func (x *Exchange) Handle(kind string, h Handler) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handlers[kind] = h
}

// letter is a message in a mailbox.
type letter struct {
	Kind string          `json:"k,omitempty"`
	Body json.RawMessage `json:"b"`
}

// Run handles the messages for this replica until ctx ends, and waits for running handlers.
func (x *Exchange) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	failing := false
	var announced time.Time
	for ctx.Err() == nil {
		store, shared := x.store()
		if !shared {
			return
		}
		var in letter
		var ok bool
		err := x.announce(ctx, store, &announced)
		if err == nil {
			ok, err = x.take(ctx, store, inbox(x.instance), takeWait, &in)
		}
		if err != nil {
			if !failing && ctx.Err() == nil {
				x.log.Warn("answers of clients that reach another replica are not passed on: the store fails", "error", err)
			}
			failing = true
			retry.Wait(ctx, pause)
			continue
		}
		failing = false
		if ok {
			x.dispatch(ctx, &wg, in)
		}
	}
}

// announce registers this replica as present if the last time is long ago.
func (x *Exchange) announce(ctx context.Context, store Store, last *time.Time) error {
	if time.Since(*last) < announceEvery {
		return nil
	}
	err := store.Announce(ctx, x.instance, presentFor)
	if err == nil {
		*last = time.Now()
	}
	return err
}

// dispatch handles one message, unless too many are being handled.
func (x *Exchange) dispatch(ctx context.Context, wg *sync.WaitGroup, in letter) {
	x.mu.RLock()
	h := x.handlers[in.Kind]
	x.mu.RUnlock()
	select {
	case x.slots <- struct{}{}:
	default:
		h = nil
		x.log.Warn("a message of another replica is dropped: too many are being handled", "kind", in.Kind)
	}
	if h == nil {
		return
	}
	wg.Go(func() {
		defer func() { <-x.slots }()
		defer func() {
			if p := recover(); p != nil {
				x.log.Error("panic", "in", "message of another replica", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		h(ctx, in.Body)
	})
}

// Send sends a message to a replica. body is encoded as JSON.
func (x *Exchange) Send(ctx context.Context, instance, kind string, body any) error {
	return x.put(ctx, inbox(instance), kind, body)
}

// Broadcast sends a message to all other present replicas. Errors are returned after all
// were tried.
func (x *Exchange) Broadcast(ctx context.Context, kind string, body any) error {
	store, shared := x.store()
	if !shared {
		return ErrNone
	}
	replicas, err := store.Present(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range replicas[:min(len(replicas), MaxReplicas)] {
		if r != x.instance {
			errs = append(errs, x.Send(ctx, r, kind, body))
		}
	}
	return errors.Join(errs...)
}

// Reply puts a message into the mailbox of one request.
func (x *Exchange) Reply(ctx context.Context, box string, body any) error {
	return x.put(ctx, "reply:"+box, "", body)
}

// Receive takes a message from the mailbox of one request; ok is false when none arrived in
// time.
func (x *Exchange) Receive(ctx context.Context, box string, wait time.Duration, body any) (ok bool, err error) {
	store, shared := x.store()
	if !shared {
		return false, ErrNone
	}
	var in letter
	if ok, err = x.take(ctx, store, "reply:"+box, wait, &in); !ok || err != nil {
		return false, err
	}
	return true, json.Unmarshal(in.Body, body)
}

func inbox(instance string) string { return "inbox:" + instance }

func (x *Exchange) put(ctx context.Context, box, kind string, body any) error {
	store, shared := x.store()
	if !shared {
		return ErrNone
	}
	text, err := json.Marshal(body)
	if err == nil {
		text, err = json.Marshal(letter{Kind: kind, Body: text})
	}
	if err != nil {
		return err
	}
	if len(text) > maxHandoverText {
		return fmt.Errorf("a message of %d bytes is too large for the store", len(text))
	}
	return store.Put(ctx, box, string(x.aead.Seal(nil, nil, text, []byte(box))), mailTTL)
}

// take reads a text that put wrote to the same mailbox. Other texts are dropped.
func (x *Exchange) take(ctx context.Context, store Store, box string, wait time.Duration, in *letter) (bool, error) {
	text, ok, err := store.Take(ctx, box, wait)
	if !ok || err != nil {
		return false, err
	}
	if len(text) > maxHandoverText+1024 {
		return false, nil
	}
	plain, err := x.aead.Open(nil, nil, []byte(text), []byte(box))
	if err != nil || json.Unmarshal(plain, in) != nil {
		x.log.Warn("a text in the store that replicas share was not written by a gateway with the same sessions.key_file")
		return false, nil
	}
	return true, nil
}
