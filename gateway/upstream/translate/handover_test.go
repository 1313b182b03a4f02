package translate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a store in memory.
type memory struct {
	mu    sync.Mutex
	boxes map[string]chan string
	puts  []string
	there []string
	fails error
}

func (m *memory) Announce(_ context.Context, replica string, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.there, replica) {
		m.there = append(m.there, replica)
	}
	return m.fails
}

func (m *memory) Present(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.there), m.fails
}

func (m *memory) box(name string) chan string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.boxes == nil {
		m.boxes = map[string]chan string{}
	}
	if m.boxes[name] == nil {
		m.boxes[name] = make(chan string, 16)
	}
	return m.boxes[name]
}

func (m *memory) Put(_ context.Context, box, text string, _ time.Duration) error {
	if m.fails != nil {
		return m.fails
	}
	m.mu.Lock()
	m.puts = append(m.puts, text)
	m.mu.Unlock()
	m.box(box) <- text
	return nil
}

func (m *memory) Take(ctx context.Context, box string, wait time.Duration) (string, bool, error) {
	if m.fails != nil {
		return "", false, m.fails
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case text := <-m.box(box):
		return text, true, nil
	case <-timer.C:
		return "", false, nil
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
}

func newExchange(t *testing.T, m *memory, key byte) *Exchange {
	t.Helper()
	x, err := NewHandover(func() (Store, bool) { return m, m != nil }, append(make([]byte, 31), key), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A message reaches its replica and handler, sealed; a text that was sealed with
// another key, or for another mailbox, is dropped.
func TestMessagesBetweenReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		one, other, stranger := newExchange(t, m, 1), newExchange(t, m, 1), newExchange(t, m, 2)
		got := make(chan string, 4)
		other.Handle("greeting", func(_ context.Context, body []byte) { got <- string(body) })
		other.Handle("panics", func(context.Context, []byte) { panic("on purpose") })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); other.Run(ctx) }()
		for _, send := range []struct {
			from *Exchange
			kind string
			body any
		}{{stranger, "greeting", "forged"}, {one, "unknown", "x"}, {one, "panics", "x"}, {one, "greeting", "secret"}} {
			if err := send.from.Send(ctx, other.Instance(), send.kind, send.body); err != nil {
				t.Fatal(err)
			}
		}
		if text := <-got; text != `"secret"` {
			t.Errorf("got %s", text)
		}
		for _, text := range m.puts {
			if strings.Contains(text, "secret") || strings.Contains(text, "greeting") {
				t.Errorf("the store can read %q", text)
			}
		}
		// A reply to one request is not accepted for another.
		if err := one.Reply(ctx, "a", 7); err != nil {
			t.Fatal(err)
		}
		moved := <-m.box("reply:a")
		m.box("reply:b") <- moved
		var n int
		if ok, err := one.Receive(ctx, "b", time.Second, &n); ok || err != nil {
			t.Errorf("a moved reply: %v %v", ok, err)
		}
		if err := one.Reply(ctx, "a", 7); err != nil {
			t.Fatal(err)
		}
		if ok, err := other.Receive(ctx, "a", time.Second, &n); !ok || err != nil || n != 7 {
			t.Errorf("%v %v %d", ok, err, n)
		}
		if ok, err := other.Receive(ctx, "a", time.Second, &n); ok || err != nil {
			t.Errorf("an empty mailbox: %v %v", ok, err)
		}
		cancel()
		<-done
		if len(got) != 0 {
			t.Errorf("a forged message was handled: %s", <-got)
		}
	})
}

// Without a store nothing can be passed; a store that fails is tried again.
func TestWithoutAStore(t *testing.T) {
	alone := newExchange(t, nil, 1)
	alone.Run(t.Context()) // returns at once
	if err := alone.Send(t.Context(), "x", "k", 1); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	var v json.RawMessage
	if _, err := alone.Receive(t.Context(), "x", time.Second, &v); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		m := &memory{fails: errors.New("down")}
		x := newExchange(t, m, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		x.Run(ctx)
		if err := x.Send(t.Context(), "x", "k", 1); err == nil {
			t.Error("a message to a store that fails was sent")
		}
	})
}

// A broadcast reaches every other present replica, and not its sender.
func TestABroadcastReachesAllOtherReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[string]int{}
		var replicas []*Exchange
		for range 3 {
			x := newExchange(t, m, 1)
			x.Handle("k", func(_ context.Context, body []byte) {
				mu.Lock()
				defer mu.Unlock()
				got[x.Instance()+string(body)]++
			})
			replicas = append(replicas, x)
			wg.Go(func() { x.Run(ctx) })
		}
		synctest.Wait() // all replicas are announced
		if err := replicas[0].Broadcast(ctx, "k", 7); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		if len(got) != 2 || got[replicas[1].Instance()+"7"] != 1 || got[replicas[2].Instance()+"7"] != 1 {
			t.Errorf("got %v", got)
		}
		mu.Unlock()
		stop()
		wg.Wait()
	})
}
