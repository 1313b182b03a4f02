package background

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
)

// events returns the types of the messages that wait for a webhook, with the counts of policies.
func (r *rig) events() (list []string, counts []float64) {
	r.t.Helper()
	queues, err := r.tenant.Queues(r.t.Context(), nil, 1000)
	if err != nil || len(queues) != 1 {
		r.t.Fatal(queues, err)
	}
	for _, d := range queues[0].Waiting {
		list = append(list, d.Event.Type)
		if n, ok := d.Event.Data["count"].(float64); ok {
			counts = append(counts, n)
		}
	}
	return list, counts
}

// A target that is missed and met again gets one message of each kind, and a policy that fires one a
// minute with the number of requests.
func TestEventsOfTargetsAndPolicies(t *testing.T) {
	r := newRig(t)
	if _, err := r.tenant.CreateWebhook(t.Context(), store.WebhookCreate{Name: "h", URL: "https://h.example/", Enabled: true, Secret: "s",
		Events: []string{store.EventSLABreached, store.EventSLARecovered, store.EventPolicyFired}}); err != nil {
		t.Fatal(err)
	}
	r.sla("1h", nil, ptr(10))
	made, err := r.tenant.CreatePolicies(t.Context(), store.PolicyCreate{Name: "p", Phase: "request", Condition: store.PolicyCondition{Type: "always"}, Action: "warn", Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	fire := func(n int) {
		t.Helper()
		batch := make([]store.Trace, n)
		for i := range batch {
			batch[i] = store.Trace{AgentID: r.agent, Status: store.TraceSuccess, CreatedAt: r.clock.Now(), PoliciesFired: []store.PolicyFired{{ID: made[0].ID, Name: "p", Action: "warn"}}}
		}
		if _, err := r.stored.Ingest(t.Context(), store.Batch{Traces: batch}); err != nil {
			t.Fatal(err)
		}
	}
	e := NewEvaluator(r.options())
	pass := func(after time.Duration) {
		r.clock.advance(after)
		r.step(e)
	}
	fire(5) // before the first pass: nobody knows since when
	pass(0)
	r.traces(10, r.clock.Now(), time.Millisecond, store.TraceError, false)
	fire(2)
	pass(time.Minute)
	fire(3)
	pass(10 * time.Second) // too early for a second message
	fire(4)
	pass(time.Minute)
	pass(time.Minute)
	pass(3 * time.Hour) // no data: the state stays
	r.traces(10, r.clock.Now(), time.Millisecond, store.TraceSuccess, false)
	pass(time.Minute)
	pass(time.Minute)
	list, counts := r.events()
	if want := []string{store.EventSLABreached, store.EventPolicyFired, store.EventPolicyFired, store.EventSLARecovered}; !slices.Equal(list, want) {
		t.Errorf("events %q, want %q", list, want)
	}
	if !slices.Equal(counts, []float64{2, 7}) {
		t.Errorf("counts %v", counts)
	}
}

// TestBudgetEvents: each percentage has one event in a period, also when the process was restarted or
// the limit was changed meanwhile.
func TestBudgetEvents(t *testing.T) {
	b := store.Budget{ID: "bud_1", Payer: store.Payer{Scope: store.TenantBudget}, Period: store.Daily, Limit: 1000, WarnAt: []int{50, 80}}
	var mark budgetMark
	for _, step := range []struct {
		spent store.NanoUSD
		limit store.NanoUSD
		after time.Duration
		want  []any // percentages
	}{
		{0, 1000, 0, nil},
		{499, 1000, 0, nil},
		{500, 1000, 0, []any{50}},
		{700, 1000, 0, nil},
		{1000, 1000, 0, []any{80, 100}},
		{5000, 1000, 0, nil},
		{5000, 8000, 0, nil},       // 50 is still passed
		{6400, 8000, 0, []any{80}}, // 80 was out of reach again
		{8000, 8000, 0, []any{100}},
		{0, 8000, 24 * time.Hour, nil}, // the next day
		{8000, 8000, 25 * time.Hour, []any{50, 80, 100}},
		{8000, 8000, 11*time.Hour + 30*time.Minute, nil}, // the clock goes back to the day before
		{8000, 8000, 26 * time.Hour, nil},
		{8000, 8000, -time.Hour, []any{50, 80, 100}}, // it was wrong: by the right one nothing was said
	} {
		b.Limit = step.limit
		next, events := passed(&b, step.spent, epoch.Add(step.after), mark)
		var got []any
		for _, e := range events {
			got = append(got, e.Data["percent"])
			if exceeded := e.Data["percent"] == 100; exceeded != (e.Type == store.EventBudgetExceeded) || e.Subject.ID != b.ID {
				t.Errorf("event %+v", e)
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%d of %d spent: events at %v, want %v", step.spent, step.limit, got, step.want)
		}
		if again, events := passed(&b, step.spent, epoch.Add(step.after), next); !cmp.Equal(again, next) || events != nil {
			t.Errorf("the same again: mark %+v, then %+v, and events %v", next, again, events)
		}
		mark = next
	}
	b.Payer = store.Payer{Scope: store.EnvironmentBudget, Environment: "production"}
	if _, events := passed(&b, 8000, epoch.Add(-time.Hour), mark); len(events) != 3 {
		t.Errorf("a budget of something else has %d events", len(events))
	}
}

// TestBudgetsAreEvaluated: events are queued for webhooks once, in whichever process.
func TestBudgetsAreEvaluated(t *testing.T) {
	a := onFile(t)
	ctx := t.Context()
	hook, err := a.tenant.CreateWebhook(ctx, store.WebhookCreate{Name: "h", URL: "https://example.com/x", Events: []string{store.EventBudgetThreshold, store.EventBudgetExceeded}, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.tenant.CreateBudget(ctx, store.BudgetCreate{Name: "b", Payer: store.Payer{Scope: store.TenantBudget}, Period: store.Monthly, Limit: 10, WarnAt: []int{80}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.traces.TracesOf("one").Ingest(ctx, store.Batch{Traces: []store.Trace{{ID: "spent", AgentName: "planner", Status: store.TraceSuccess, Cost: 9, CreatedAt: epoch}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e := NewEvaluator(EvaluatorOptions{Records: a.records, Traces: a.traces, Now: a.clock.Now})
		if err := e.turn(ctx); err != nil {
			t.Fatal(err)
		}
		e.release(ctx)
	}
	list, total, err := a.tenant.ListDeliveries(ctx, hook.ID, "", store.Page{})
	if err != nil || total != 1 || list[0].Event.Type != store.EventBudgetThreshold || !strings.Contains(list[0].Event.Subject.Name, "b") {
		t.Errorf("deliveries %+v, %v", list, err)
	}
}

// TestManyBudgets: a storm of events is queued in parts, each once, and what is known of budgets that
// were deleted goes. At the start of a period without spending, the events of the last one are known.
func TestManyBudgets(t *testing.T) {
	o := newOutbox(t)
	ctx := t.Context()
	hook, err := o.tenant.CreateWebhook(ctx, store.WebhookCreate{Name: "h", URL: "https://example.com/x", Events: []string{store.EventBudgetThreshold, store.EventBudgetExceeded}, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	const n = eventsAtOnce + 10
	var first store.Budget
	for i := range n {
		b, err := o.tenant.CreateBudget(ctx, store.BudgetCreate{Name: fmt.Sprint(i), Payer: store.Payer{Scope: store.TenantBudget}, Period: store.Daily, Limit: 10, WarnAt: []int{50, 80}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = b
		}
	}
	if _, err := o.store.TracesOf("one").Ingest(ctx, store.Batch{Traces: []store.Trace{{ID: "spent", AgentName: "planner", Status: store.TraceSuccess, Cost: 10, CreatedAt: epoch}}}); err != nil {
		t.Fatal(err)
	}
	e := NewEvaluator(EvaluatorOptions{Records: o.store, Traces: o.store})
	for _, now := range []time.Time{epoch, epoch, epoch.Add(24 * time.Hour), epoch} {
		if err := e.budgets(ctx, o.tenant, now); err != nil {
			t.Fatal(err)
		}
		if got := o.deliveries(hook, store.DeliveryWaiting); got != 3*n {
			t.Fatalf("at %s %d events wait, want %d", now, got, 3*n)
		}
	}
	if err := o.tenant.DeleteBudget(ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.budgets(ctx, o.tenant, epoch); err != nil {
		t.Fatal(err)
	}
	if err := o.tenant.NotifyOnce(ctx, "budgets", func(mark string) (string, []store.Event) {
		if strings.Contains(mark, first.ID) || strings.Count(mark, "bud_") != n-1 {
			t.Errorf("%d budgets are known, want %d", strings.Count(mark, "bud_"), n-1)
		}
		return mark, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestGatewayEvents: a gateway is silent when all of its running processes are, once, in whichever process,
// and not one that has stopped.
func TestGatewayEvents(t *testing.T) {
	a := onFile(t)
	ctx := t.Context()
	hook, err := a.tenant.CreateWebhook(ctx, store.WebhookCreate{Name: "h", URL: "https://example.com/x", Events: []string{store.EventGatewaySilent, store.EventGatewayBack}, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	report := func(gateway, instance string, stopped bool) {
		t.Helper()
		seq++
		if err := a.tenant.ReportGateway(ctx, store.GatewayReport{Gateway: gateway, Instance: instance, Seq: seq, Stopped: stopped, Report: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	var e *Evaluator
	turn := func(after time.Duration) {
		t.Helper()
		a.clock.advance(after)
		if err := e.gateways(ctx, a.tenant, a.clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	restart := func() {
		e = NewEvaluator(EvaluatorOptions{Records: a.records, Traces: a.traces, Now: a.clock.Now})
	}
	restart()
	report("edge", "i1", false)
	report("edge", "i2", false)
	report("core", "i3", false)
	turn(time.Minute)
	report("edge", "i2", false)
	report("core", "i3", true)
	turn(time.Minute) // one process of edge is silent, core has stopped
	turn(time.Minute) // edge is silent
	turn(time.Minute)
	restart()
	turn(0)
	turn(store.GatewaySilent + time.Minute)
	report("edge", "i1", false)
	turn(time.Second)
	turn(5 * time.Minute) // silent again
	report("edge", "i1", true)
	report("edge", "i2", true)
	turn(time.Second)
	// What signs is silent, although something reports in its name that does not sign.
	seq = 0
	for range 4 {
		turn(time.Minute)
		seq++
		for instance, key := range map[string]string{"signs": "k", "invented": ""} {
			if key != "" && seq > 1 {
				continue
			}
			if err := a.tenant.ReportGateway(ctx, store.GatewayReport{Gateway: "bound", Instance: instance, Seq: seq, PublicKey: key, Report: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, _, err := a.tenant.ListDeliveries(ctx, hook.ID, "", store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range slices.Backward(list) {
		got = append(got, d.Event.Type+" "+d.Event.Subject.Name)
	}
	if want := []string{"gateway.silent edge", "gateway.back edge", "gateway.silent edge", "gateway.silent bound"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// TestSuspendedControlPlane: a control plane that was suspended, or whose clock was set, has heard of nobody
// meanwhile, and calls nobody silent for that.
func TestSuspendedControlPlane(t *testing.T) {
	a, ctx := onFile(t), t.Context()
	hook, err := a.tenant.CreateWebhook(ctx, store.WebhookCreate{Name: "h", URL: "https://example.com/x", Events: []string{store.EventGatewaySilent, store.EventGatewayBack}, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	e := NewEvaluator(EvaluatorOptions{Records: a.records, Traces: a.traces, Now: a.clock.Now})
	seq := int64(0)
	turn := func(after time.Duration, reports bool) {
		t.Helper()
		a.clock.advance(after)
		if seq++; reports {
			if err := a.tenant.ReportGateway(ctx, store.GatewayReport{Gateway: "edge", Instance: "i", Seq: seq, Report: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.evaluate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	events := func() int {
		t.Helper()
		list, _, err := a.tenant.ListDeliveries(ctx, hook.ID, "", store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for range 4 {
		turn(time.Minute, true)
	}
	turn(time.Hour, false)
	turn(time.Minute, true)
	if n := events(); n != 0 {
		t.Errorf("%d events of a gateway that reports", n)
	}
	for range 4 {
		turn(time.Minute, false)
	}
	if n := events(); n != 1 {
		t.Errorf("%d events of a gateway that does not report", n)
	}
}
