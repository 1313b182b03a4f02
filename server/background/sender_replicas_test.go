//go:build unix

package background

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
)

// Two processes on one database send each message once; when the one that holds the lease ends, the
// other sends the rest.
func TestReplicasSendOnce(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	var mu sync.Mutex
	got := map[string]int{}
	post := func(_ context.Context, _ string, header http.Header, _ []byte) (Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		got[header.Get("X-Svc-Delivery")]++
		return Answer{Status: 200}, nil
	}
	type process struct {
		st   *postgres.Store
		stop func()
	}
	start := func() process {
		st, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := NewSender(EvaluatorOptions{Records: st, Traces: st, Interval: 50 * time.Millisecond}, post)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { s.Run(ctx) })
		stop := sync.OnceFunc(func() { cancel(); done.Wait() })
		t.Cleanup(func() { stop(); st.Close() })
		return process{st, stop}
	}
	one, two := start(), start()
	if _, _, err := one.st.CreateTenant(t.Context(), store.TenantCreate{ID: "one", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	tn := one.st.Tenant("one")
	h, err := tn.CreateWebhook(t.Context(), store.WebhookCreate{Name: "h", URL: "https://h.example/", Events: []string{store.EventAgentCreated}, Enabled: true, Secret: "s"})
	if err != nil {
		t.Fatal(err)
	}
	// sent creates n agents at both processes in turn, and waits until all messages so far were sent.
	total := 0
	sent := func(n int) {
		t.Helper()
		for range n {
			total++
			at := []*postgres.Store{one.st, two.st}[total%2]
			if _, err := at.Tenant("one").CreateAgent(t.Context(), store.AgentCreate{Name: time.Now().String()}); err != nil {
				t.Fatal(err)
			}
		}
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			_, delivered, err := tn.ListDeliveries(t.Context(), h.ID, store.DeliveryDelivered, store.Page{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if delivered == total {
				return
			}
			<-ticker.C
		}
	}
	sent(20)
	one.stop()
	sent(20)
	mu.Lock()
	defer mu.Unlock()
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
	if len(got) != total {
		t.Errorf("%d messages were sent, want %d", len(got), total)
	}
}
