package background

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc/store"
	"svc/store/storetest/memory"
)

// outbox is a store in memory with a tenant, and a receiver that a function plays.
type outbox struct {
	t      *testing.T
	store  *memory.Store
	tenant store.Tenant
	mu     sync.Mutex
	got    []sent
	answer func(sent) (Answer, error)

	interval time.Duration // how often queues are read; 0: the default
}

// sent is a message as a receiver gets it.
type sent struct {
	url, delivery, signature string
	event                    struct {
		ID, Type, Tenant string
		Subject          struct{ Kind, ID, Name string }
		Data             struct{ N int }
		Dropped          int
	}
	at   time.Time
	body string
}

func newOutbox(t *testing.T) *outbox {
	o := &outbox{t: t, store: memory.Open(memory.Options{}), answer: func(sent) (Answer, error) { return Answer{Status: 200}, nil }}
	t.Cleanup(func() { o.store.Close() })
	if _, _, err := o.store.CreateTenant(t.Context(), store.TenantCreate{ID: "one", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	o.tenant = o.store.Tenant("one")
	return o
}

func (o *outbox) post(ctx context.Context, url string, header http.Header, body []byte) (Answer, error) {
	s := sent{url: url, delivery: header.Get("X-Svc-Delivery"), signature: header.Get("X-Svc-Signature"), at: time.Now(), body: string(body)}
	if err := json.Unmarshal(body, &s.event); err != nil {
		o.t.Errorf("%s: %v", body, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	a, err := o.answer(s)
	if err == nil && a.Status == 0 { // it hangs
		o.mu.Unlock()
		<-ctx.Done()
		o.mu.Lock()
		return a, ctx.Err()
	}
	o.got = append(o.got, s)
	return a, err
}

func (o *outbox) webhook(name string) store.Webhook {
	o.t.Helper()
	h, err := o.tenant.CreateWebhook(o.t.Context(), store.WebhookCreate{Name: name, URL: "https://x.example/" + name, Events: []string{store.EventPolicyFired}, Enabled: true, Secret: "s"})
	if err != nil {
		o.t.Fatal(err)
	}
	return h
}

// queue queues n events, each about one of some subjects in turn, numbered for each subject.
func (o *outbox) queue(n, subjects int) {
	o.t.Helper()
	if err := o.tenant.NotifyOnce(o.t.Context(), "test", func(string) (string, []store.Event) {
		events := make([]store.Event, n)
		for i := range events {
			id := fmt.Sprint(i % subjects)
			events[i] = store.Event{Type: store.EventPolicyFired, Subject: store.Subject{Kind: "policy", ID: id, Name: id}, Data: map[string]any{"n": i / subjects}}
		}
		return "", events
	}); err != nil {
		o.t.Fatal(err)
	}
}

// run sends until f returns.
func (o *outbox) run(f func(s *Sender)) {
	o.t.Helper()
	s := NewSender(EvaluatorOptions{Records: o.store, Traces: o.store, Interval: o.interval}, o.post)
	ctx, cancel := context.WithCancel(o.t.Context())
	var done sync.WaitGroup
	done.Go(func() { s.Run(ctx) })
	f(s)
	cancel()
	done.Wait()
}

func (o *outbox) deliveries(h store.Webhook, state string) int {
	o.t.Helper()
	_, n, err := o.tenant.ListDeliveries(context.Background(), h.ID, state, store.Page{Limit: 1})
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

// 2,000 messages, with SVC_TEST_MESSAGES 10,000, that are refused three times each: none is lost, none comes before the one
// before it about the same subject, and the sender may be restarted.
func TestNoMessageIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t)
		h := o.webhook("h")
		n, subjects := 2_000, 500
		if os.Getenv("SVC_TEST_MESSAGES") != "" {
			n, subjects = 10_000, 2_500
		}
		tries := map[string]int{}
		o.answer = func(s sent) (Answer, error) {
			if tries[s.delivery]++; tries[s.delivery] <= 3 {
				return Answer{Status: 503}, nil
			}
			return Answer{Status: 204}, nil
		}
		o.queue(n, subjects)
		o.run(func(*Sender) { pass(90 * time.Second) })
		o.run(func(s *Sender) {
			pass(time.Hour)
			if c := s.Counts(); c.Waiting != 0 || c.Failed != 0 || c.Retried == 0 {
				t.Errorf("counts %+v", c)
			}
		})
		if got := o.deliveries(h, store.DeliveryDelivered); got != n {
			t.Errorf("%d of %d were delivered", got, n)
		}
		last := map[string]int{}
		good := 0
		for _, s := range o.got {
			if tries[s.delivery] == 0 {
				t.Fatal("unknown delivery")
			}
			id := s.event.Subject.ID
			if s.event.Data.N < last[id] {
				t.Fatalf("subject %s: %d after %d", id, s.event.Data.N, last[id])
			}
			last[id] = s.event.Data.N
			good++
		}
		if good < 4*n {
			t.Errorf("%d attempts", good)
		}
	})
}

// A receiver that hangs, and a subject that is refused, delay nothing else by two seconds.
func TestWebhooksDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t)
		for i := range store.MaxWebhooks {
			o.webhook(fmt.Sprint(i))
		}
		o.answer = func(s sent) (Answer, error) {
			switch {
			case s.url == "https://x.example/0":
				return Answer{}, nil
			case s.event.Subject.ID == "7":
				return Answer{}, errors.New("refused")
			}
			return Answer{Status: 200}, nil
		}
		o.run(func(*Sender) {
			pass(time.Second)
			began := time.Now()
			o.queue(40, 20)
			pass(30 * time.Second)
			o.mu.Lock()
			defer o.mu.Unlock()
			good := 0
			for _, s := range o.got {
				if s.url != "https://x.example/0" && s.event.Subject.ID != "7" {
					if good++; s.at.Sub(began) >= 2*time.Second {
						t.Fatalf("%s of %s came after %s", s.event.Subject.ID, s.url, s.at.Sub(began))
					}
				}
			}
			if want := (store.MaxWebhooks - 1) * 38; good != want {
				t.Errorf("%d messages, want %d", good, want)
			}
		})
	})
}

// The times of the attempts of a message that is always refused, and the state after the last.
func TestEightAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t)
		o.interval = 2 * time.Second
		h := o.webhook("h")
		o.answer = func(sent) (Answer, error) {
			if len(o.got) == 2 {
				return Answer{Status: 429, RetryAfter: 10 * time.Minute}, nil
			}
			return Answer{Status: 302, Location: "https://elsewhere.example/"}, nil
		}
		o.queue(1, 1)
		o.run(func(*Sender) { pass(24 * time.Hour) })
		if len(o.got) != store.MaxTries || o.deliveries(h, store.DeliveryFailed) != 1 {
			t.Fatalf("%d attempts, %d failed", len(o.got), o.deliveries(h, store.DeliveryFailed))
		}
		for i, s := range o.got[1:] {
			least, most := pauses[i], pauses[i]*6/5+2*time.Second
			if i == 2 {
				least, most = 10*time.Minute, 10*time.Minute+2*time.Second
			}
			if d := s.at.Sub(o.got[i].at); d < least || d > most || s.delivery != o.got[0].delivery {
				t.Errorf("attempt %d after %s, want %s to %s", i+2, d, least, most)
			}
		}
		list, _, err := o.tenant.ListDeliveries(t.Context(), h.ID, "", store.Page{})
		if want := "the receiver answered 302, which redirects to https://elsewhere.example/: write the final address into the configuration"; err != nil || list[0].Error != want || list[0].Status != 302 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// After three days of failures a webhook is disabled; enabled again it gets what waits.
func TestFailingWebhookIsDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t)
		o.interval = 10 * time.Second
		h := o.webhook("h")
		down := true
		o.answer = func(sent) (Answer, error) {
			if down {
				return Answer{}, errors.New("connection refused")
			}
			return Answer{Status: 200}, nil
		}
		o.run(func(*Sender) {
			for range 80 {
				o.queue(1, 1)
				pass(time.Hour)
			}
			if now, err := o.tenant.GetWebhook(t.Context(), h.ID); err != nil || now.Enabled || now.Waiting == 0 {
				t.Fatalf("%+v, %v", now, err)
			}
			o.mu.Lock()
			down, o.got = false, nil
			o.mu.Unlock()
			on := true
			if _, err := o.tenant.UpdateWebhook(t.Context(), h.ID, store.WebhookUpdate{Enabled: &on}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute) // the change makes all attempts due
			if n := o.deliveries(h, store.DeliveryWaiting); n != 0 || len(o.got) == 0 {
				t.Errorf("%d wait, %d were sent", n, len(o.got))
			}
		})
	})
}

// forgetful is a store that loses results, as a database does that fails over to a standby.
type forgetful struct {
	*memory.Store
	lost int // of the next ones
}

type forgetfulTenant struct {
	store.Tenant
	of *forgetful
}

func (f *forgetful) Tenant(id string) store.Tenant { return forgetfulTenant{f.Store.Tenant(id), f} }

func (f forgetfulTenant) RecordAttempts(ctx context.Context, list []store.Attempt) ([]store.Webhook, error) {
	if f.of.lost > 0 {
		f.of.lost--
		return nil, nil
	}
	return f.Tenant.RecordAttempts(ctx, list)
}

// A message whose result the store lost is sent again, by the process that sent it, and so is one whose
// next attempt a clock that went back has moved away.
func TestWaitingMessagesAreFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			lost   int
			back   time.Duration
			status int
		}{
			"lost result":         {lost: 1, status: 200},
			"clock that was back": {back: 1000 * time.Hour, status: 503},
		} {
			o := newOutbox(t)
			h := o.webhook("h")
			o.answer = func(sent) (Answer, error) {
				if len(o.got) == 0 {
					return Answer{Status: c.status}, nil
				}
				return Answer{Status: 200}, nil
			}
			o.queue(1, 1)
			var slow atomic.Int64
			s := NewSender(EvaluatorOptions{Records: &forgetful{o.store, c.lost}, Now: func() time.Time { return time.Now().Add(-time.Duration(slow.Load())) }}, o.post)
			ctx, cancel := context.WithCancel(t.Context())
			var done sync.WaitGroup
			done.Go(func() { s.Run(ctx) })
			pass(time.Second)
			slow.Store(int64(c.back))
			pass(time.Minute)
			if n := o.deliveries(h, store.DeliveryDelivered); n != 1 || len(o.got) != 2 {
				t.Errorf("%s: %d delivered in %d attempts", name, n, len(o.got))
			}
			cancel()
			done.Wait()
		}
	})
}

// broken is a store with a tenant whose queues cannot be read.
type broken struct{ *memory.Store }

type brokenTenant struct{ store.Tenant }

func (b broken) ListTenants(context.Context) ([]store.TenantInfo, error) {
	return []store.TenantInfo{{ID: "bad"}, {ID: "one"}}, nil
}

func (b broken) Tenant(id string) store.Tenant {
	if id == "bad" {
		return brokenTenant{b.Store.Tenant("one")}
	}
	return b.Store.Tenant(id)
}

func (brokenTenant) Queues(context.Context, map[string]string, int) ([]store.Queue, error) {
	return nil, errors.New("damaged")
}

// Queues that cannot be read hold up no other tenant's.
func TestABrokenTenantHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t)
		h := o.webhook("h")
		o.queue(3, 3)
		s := NewSender(EvaluatorOptions{Records: broken{o.store}}, o.post)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { s.Run(ctx) })
		pass(10 * time.Second)
		cancel()
		done.Wait()
		if n := o.deliveries(h, store.DeliveryDelivered); n != 3 {
			t.Errorf("%d of 3 were delivered", n)
		}
	})
}

// slowStore is a store with so many tenants that their list takes a second.
type slowStore struct {
	*memory.Store
	reads int
}

func (s *slowStore) ListTenants(ctx context.Context) ([]store.TenantInfo, error) {
	s.reads++
	pass(time.Second)
	return s.Store.ListTenants(ctx)
}

// Reading the queues takes at most a fifth of the time of a process.
func TestSlowQueuesAreReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowStore{Store: newOutbox(t).store}
		s := NewSender(EvaluatorOptions{Records: slow}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { s.Run(ctx) })
		pass(100*time.Second + time.Millisecond)
		cancel()
		done.Wait()
		if slow.reads < 18 || slow.reads > 22 {
			t.Errorf("%d reads of a second in 100 seconds", slow.reads)
		}
	})
}

// The signature, also while there are two secrets.
func TestSignature(t *testing.T) {
	h := &store.Webhook{Secret: "new", OldSecret: "old", OldUntil: epoch.Add(time.Hour)}
	for at, want := range map[time.Time]int{epoch: 2, epoch.Add(time.Hour): 1} {
		header := headerOf(h, &store.Delivery{ID: "dlv_1", Event: store.Event{Type: "policy.fired"}}, []byte("{}"), at)
		parts := strings.Split(header.Get("X-Svc-Signature"), ",")
		if len(parts) != 1+want || parts[0] != fmt.Sprintf("t=%d", at.Unix()) || parts[1] != "v1="+sign("new", fmt.Sprint(at.Unix()), []byte("{}")) {
			t.Errorf("signature %q", parts)
		}
		if want == 2 && parts[2] != "v1="+sign("old", fmt.Sprint(at.Unix()), []byte("{}")) {
			t.Errorf("second signature %q", parts)
		}
	}
}

// A line for Slack has no markup, no line breaks and notifies nobody.
func TestSlack(t *testing.T) {
	e := store.Event{Type: store.EventApprovalRequested, Subject: store.Subject{Kind: "approval", ID: "apr_1", Name: "<!channel> a&b\r\n@here `x` \u202e" + strings.Repeat("é", 400)},
		Data: map[string]any{"agentName": "planner", "principal": "oauth:a…@x.example"}}
	body, err := messageOf("one", "", "slack", &store.Delivery{Event: e, Dropped: 3})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Text string }
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<", ">", "\n", "\r", "@here", "@channel", "\u202e"} {
		if strings.Contains(got.Text, bad) {
			t.Errorf("%q in %q", bad, got.Text)
		}
	}
	for _, want := range []string{"&lt;!channel&gt; a&amp;b", "`svc approvals show apr_1`", "3 earlier messages"} {
		if !strings.Contains(got.Text, want) {
			t.Errorf("no %q in %q", want, got.Text)
		}
	}
	if n := strings.Count(got.Text, "é"); n > maxSlackName {
		t.Errorf("%d characters of a name", n)
	}
	for _, typ := range []string{store.EventApprovalDecided, store.EventApprovalExpired, store.EventBudgetThreshold, store.EventBudgetExceeded, store.EventSLABreached, store.EventSLARecovered,
		store.EventPolicyFired, store.EventToolChanged, store.EventAgentCreated, store.EventGatewaySilent, store.EventGatewayBack, store.EventWebhookTest} {
		e := WireEvent("one", "", &store.Delivery{Event: store.Event{Type: typ, Subject: store.Subject{Name: "NAME"}}})
		if text := slackText(&e); !strings.Contains(text, "NAME") || strings.HasPrefix(text, typ) {
			t.Errorf("%s: %q", typ, text)
		}
	}
	unused := WireEvent("one", "", &store.Delivery{Event: store.Event{Type: store.EventApprovalExpired, Data: map[string]any{"decision": store.DecisionGrant}}})
	if text := slackText(&unused); !strings.Contains(text, "was granted and not used in time") {
		t.Errorf("a grant that nobody used: %q", text)
	}
}

// TestLinks: messages link to the page of their subject where people can reach it, whatever is in its name.
func TestLinks(t *testing.T) {
	const evil = "a b/../?x=1#<!channel>|@here&`"
	const escaped = "a%20b%2F..%2F%3Fx%3D1%23%3C%21channel%3E%7C%40here%26%60"
	for _, c := range []struct{ typ, kind, id, want string }{
		{store.EventApprovalRequested, "approval", "apr_1", "approvals/apr_1"},
		{store.EventApprovalDecided, "approval", "apr_1", "approvals/apr_1"},
		{store.EventApprovalExpired, "approval", evil, "approvals/" + escaped},
		{store.EventBudgetThreshold, "budget", "bud_1", "budgets"},
		{store.EventBudgetExceeded, "budget", "bud_1", "budgets"},
		{store.EventSLABreached, "slaTarget", "sla_1", "budgets"},
		{store.EventSLARecovered, "slaTarget", "sla_1", "budgets"},
		{store.EventPolicyFired, "policy", "pol_1", "policies/pol_1"},
		{store.EventToolChanged, "tool", evil, "traces?requestId=" + escaped},
		{store.EventAgentCreated, "agent", "agt_1", "agents/agt_1"},
		{store.EventGatewaySilent, "gateway", evil, "gateways/" + escaped},
		{store.EventGatewayBack, "gateway", evil, "gateways/" + escaped},
		{store.EventWebhookTest, "webhook", "whk_1", ""},
	} {
		d := store.Delivery{Event: store.Event{Type: c.typ, Subject: store.Subject{Kind: c.kind, ID: c.id, Name: evil}, Data: map[string]any{"requestId": evil}}}
		want := "https://svc.example.com/" + c.want
		var got struct{ Text, Link string }
		for _, format := range []string{"slack", "json"} {
			body, err := messageOf("one", "svc.example.com", format, &d)
			if err != nil || json.Unmarshal(body, &got) != nil {
				t.Fatal(err, string(body))
			}
		}
		if got.Link != want || !strings.HasSuffix(got.Text, " <"+want+">") || strings.Contains(got.Text, "`svc ") || strings.ContainsAny(strings.TrimSuffix(got.Text, "<"+want+">"), "<>\n") || strings.Contains(got.Text, "@here") {
			t.Errorf("%s: link %q in %q, want %q", c.typ, got.Link, got.Text, want)
		}
		if body, err := messageOf("one", "", "json", &d); err != nil || strings.Contains(string(body), "link") {
			t.Errorf("%s: without a page: %s, %v", c.typ, body, err)
		}
	}
}

// pass waits until a duration has passed on the clock of the test's bubble.
func pass(d time.Duration) { <-time.After(d) }
