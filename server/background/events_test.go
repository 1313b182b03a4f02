package background

import (
	"slices"
	"testing"
	"time"

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
