package background

import (
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// TestBudgetEvents: each percentage has one event in a period, also when the process was restarted or
// the limit was changed meanwhile.
func TestBudgetEvents(t *testing.T) {
	b := store.Budget{ID: "bud_1", Payer: store.Payer{Scope: store.TenantBudget}, Period: store.Daily, Limit: 1000, WarnAt: []int{50, 80}}
	mark := ""
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
		if again, events := passed(&b, step.spent, epoch.Add(step.after), next); again != next || events != nil {
			t.Errorf("the same again: mark %q, then %q, and events %v", next, again, events)
		}
		mark = next
	}
	b.Payer = store.Payer{Scope: store.EnvironmentBudget, Environment: "production"}
	if _, events := passed(&b, 8000, epoch.Add(25*time.Hour), mark); len(events) != 3 {
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
