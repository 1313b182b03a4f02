package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
)

// webhook creates an enabled webhook for events.
func webhook(t testing.TB, tn Tenant, name string, events ...string) store.Webhook {
	t.Helper()
	return must(tn.CreateWebhook(ctx, store.WebhookCreate{Name: name, URL: "https://hooks.example/" + name, Events: events, Format: "json", Enabled: true, Secret: "first"}))(t)
}

// queued returns the deliveries of a webhook that wait, oldest first.
func queued(t testing.TB, tn Tenant, id string) []store.Delivery {
	t.Helper()
	for _, q := range must(tn.Queues(ctx, nil, store.MaxWaiting))(t) {
		if q.Webhook.ID == id {
			return q.Waiting
		}
	}
	t.Fatalf("no queue of %s", id)
	return nil
}

func subjects(list []store.Delivery) []string {
	return ids(list, func(d store.Delivery) string { return d.Event.Subject.Name })
}

func testWebhooks(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	agent := newAgent(t, tn, "planner")
	h := must(tn.CreateWebhook(ctx, store.WebhookCreate{Name: "ops", URL: "https://hooks.example/a", Events: []string{store.EventAgentCreated}, Format: "slack",
		AgentID: agent.ID, Environment: "production", Enabled: true, Secret: "first"}))(t)
	if h.AgentName != "planner" || h.Secret != "first" || !h.Enabled || h.CreatedAt.IsZero() || !cmp.Equal(h, must(tn.GetWebhook(ctx, h.ID))(t)) {
		t.Errorf("webhook %+v", h)
	}
	for _, in := range []store.WebhookCreate{{Name: "ops"}, {Name: "other", AgentID: "agt_unknown"}, {}} {
		if _, err := tn.CreateWebhook(ctx, in); store.KindOf(err) != store.Conflict && store.KindOf(err) != store.Invalid {
			t.Errorf("%+v: %v", in, err)
		}
	}
	url, none, off := "https://hooks.example/b", "", false
	changed := must(tn.UpdateWebhook(ctx, h.ID, store.WebhookUpdate{URL: &url, AgentID: &none, Environment: &none, Enabled: &off}))(t)
	if changed.URL != url || changed.AgentID != "" || changed.Enabled || changed.Secret != "first" || changed.Object().Digest() == h.Object().Digest() {
		t.Errorf("changed %+v", changed)
	}
	rotated := must(tn.RotateWebhookSecret(ctx, h.ID, "second"))(t)
	if rotated.Secret != "second" || rotated.OldSecret != "first" || rotated.OldUntil.Sub(rotated.UpdatedAt) != store.OldSecretFor {
		t.Errorf("rotated %+v", rotated)
	}
	events, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{ObjectID: h.ID}, store.Page{})
	if err != nil || len(events) != 3 || !slices.Equal(events[0].Changed, []string{"secret"}) || !slices.Equal(events[1].Changed, []string{"agentId", "enabled", "environment", "url"}) {
		t.Errorf("audit events %+v, %v", events, err)
	}

	// The webhook of a team ends with the team.
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	of := must(tn.CreateWebhook(ctx, store.WebhookCreate{Name: "of a team", TeamID: team.ID, Events: []string{store.EventAgentCreated}, Enabled: true}))(t)
	list, total, err := tn.ListWebhooks(ctx, store.WebhookFilter{TeamID: team.ID}, store.Page{})
	if err != nil || total != 1 || list[0].ID != of.ID {
		t.Errorf("webhooks of the team: %+v, %d, %v", list, total, err)
	}
	newAgent(t, tn, "of nobody")
	if n := len(queued(t, tn, of.ID)); n != 0 {
		t.Errorf("%d messages about agents of others", n)
	}
	if err := tn.DeleteTeam(ctx, team.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, second(tn.GetWebhook(ctx, of.ID)), store.NotFound, "")
	if err := tn.DeleteWebhook(ctx, h.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, tn.DeleteWebhook(ctx, h.ID), store.NotFound, "")
	for i := range store.MaxWebhooks {
		webhook(t, tn, fmt.Sprint(i), store.EventAgentCreated)
	}
	_, err = tn.CreateWebhook(ctx, store.WebhookCreate{Name: "one more"})
	wantKind(t, err, store.Invalid, "name")
	if _, total, _ := tn.ListWebhooks(ctx, store.WebhookFilter{}, store.Page{Limit: 5}); total != store.MaxWebhooks {
		t.Errorf("%d webhooks", total)
	}
}

func testDeliveries(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	all := webhook(t, tn, "all", store.EventAgentCreated)
	staging := must(tn.CreateWebhook(ctx, store.WebhookCreate{Name: "staging", Environment: "staging", Events: []string{store.EventAgentCreated}, Enabled: true}))(t)
	webhook(t, tn, "other", store.EventPolicyFired)
	newAgent(t, tn, "one")
	must(tn.CreateAgent(ctx, store.AgentCreate{Name: "two", Environment: "staging"}))(t)
	ingest(t, tn, store.IngestResult{Accepted: 2}, store.Trace{ID: "1", AgentName: "three", Status: store.TraceSuccess}, store.Trace{ID: "2", AgentName: "three", Status: store.TraceSuccess})
	list := queued(t, tn, all.ID)
	if !slices.Equal(subjects(list), []string{"one", "two", "three"}) || !slices.IsSortedFunc(list, func(a, b store.Delivery) int { return strings.Compare(a.ID, b.ID) }) {
		t.Fatalf("deliveries %+v", list)
	}
	e := list[2].Event
	if e.ID == "" || e.Type != store.EventAgentCreated || e.Data["autoRegistered"] != true || e.Subject.Kind != "agent" || e.CreatedAt.IsZero() {
		t.Errorf("event %+v", e)
	}
	if got := subjects(queued(t, tn, staging.ID)); !slices.Equal(got, []string{"two"}) {
		t.Errorf("staging gets %q", got)
	}
	// Part by part, as a sender reads.
	var read []string
	after := map[string]string{}
	for range 4 {
		for _, q := range must(tn.Queues(ctx, after, 2))(t) {
			after[q.Webhook.ID] = q.Last
			if q.Webhook.ID == all.ID {
				read = append(read, subjects(q.Waiting)...)
			}
		}
	}
	if !slices.Equal(read, []string{"one", "two", "three"}) {
		t.Errorf("read in parts: %q", read)
	}

	at := o.Clock.Now().Add(time.Minute)
	record := func(a store.Attempt) store.Delivery {
		t.Helper()
		a.WebhookID, a.At = all.ID, at
		must(tn.RecordAttempts(ctx, []store.Attempt{a}))(t)
		return must(tn.GetDelivery(ctx, all.ID, a.DeliveryID))(t)
	}
	if d := record(store.Attempt{DeliveryID: list[0].ID, Delivered: true, Status: 200}); d.State != store.DeliveryDelivered || d.Attempts != 1 || !d.LastAt.Equal(at) {
		t.Errorf("delivered %+v", d)
	}
	for try := range store.MaxTries {
		d := record(store.Attempt{DeliveryID: list[1].ID, Status: 500, Error: "it answered 500", NextAt: at.Add(time.Minute)})
		if want := try == store.MaxTries-1; (d.State == store.DeliveryFailed) != want || d.NextAt.IsZero() != want || d.Attempts != try+1 {
			t.Errorf("after %d attempts %+v", try+1, d)
		}
	}
	if d := record(store.Attempt{DeliveryID: list[1].ID, Delivered: true}); d.State != store.DeliveryFailed {
		t.Errorf("an ended delivery changed: %+v", d)
	}
	if h := must(tn.GetWebhook(ctx, all.ID))(t); h.Waiting != 1 || !h.FailingSince.Equal(at) {
		t.Errorf("webhook %+v", h)
	}
	must(tn.RecordAttempts(ctx, []store.Attempt{{WebhookID: all.ID, DeliveryID: "dlv_unknown"}, {WebhookID: "whk_unknown", DeliveryID: "x"}}))(t)

	page, total, err := tn.ListDeliveries(ctx, all.ID, "", store.Page{Limit: 2})
	if err != nil || total != 3 || !slices.Equal(subjects(page), []string{"three", "two"}) {
		t.Errorf("deliveries %+v, %d, %v", page, total, err)
	}
	page, total, err = tn.ListDeliveries(ctx, all.ID, "", store.Page{Limit: 2, After: store.Place{ID: page[1].ID}})
	if err != nil || total != 3 || !slices.Equal(subjects(page), []string{"one"}) {
		t.Errorf("second page %+v, %d, %v", page, total, err)
	}
	if page, total, err = tn.ListDeliveries(ctx, all.ID, store.DeliveryFailed, store.Page{}); err != nil || total != 1 || page[0].ID != list[1].ID {
		t.Errorf("failed %+v, %d, %v", page, total, err)
	}
	wantKind(t, third(tn.ListDeliveries(ctx, "whk_unknown", "", store.Page{})), store.NotFound, "")
	wantKind(t, second(tn.GetDelivery(ctx, staging.ID, list[0].ID)), store.NotFound, "")

	again := must(tn.Redeliver(ctx, all.ID, list[1].ID))(t)
	if again.Event.ID != list[1].Event.ID || again.ID <= list[2].ID || again.State != store.DeliveryWaiting {
		t.Errorf("again %+v", again)
	}
	wantKind(t, second(tn.Redeliver(ctx, all.ID, again.ID)), store.Conflict, "state")
	if d := must(tn.TestWebhook(ctx, all.ID))(t); d.Event.Type != store.EventWebhookTest || d.Event.Subject.ID != all.ID {
		t.Errorf("test %+v", d)
	}
	off := false
	must(tn.UpdateWebhook(ctx, all.ID, store.WebhookUpdate{Enabled: &off}))(t)
	wantKind(t, second(tn.TestWebhook(ctx, all.ID)), store.Conflict, "enabled")
	newAgent(t, tn, "nobody is told")
	if n := len(queued(t, tn, all.ID)); n != 3 {
		t.Errorf("%d deliveries of a disabled webhook wait", n)
	}

	o.Clock.Advance(time.Hour)
	res := must(tn.ApplyRetention(ctx, store.RetentionBounds{Deliveries: o.Clock.Now()}))(t)
	if _, total, _ := tn.ListDeliveries(ctx, all.ID, "", store.Page{}); res.Deliveries != 6 || total != 0 || must(tn.GetWebhook(ctx, all.ID))(t).Waiting != 0 {
		t.Errorf("retention %+v, %d are left", res, total)
	}
}

// testDroppedDeliveries: a full queue drops its oldest delivery, and the next one counts it.
func testDroppedDeliveries(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	h := webhook(t, tn, "h", store.EventPolicyFired)
	burst := func(n int) {
		t.Helper()
		if err := tn.NotifyOnce(ctx, "x", func(string) (string, []store.Event) {
			events := make([]store.Event, n)
			for i := range events {
				events[i] = store.Event{Type: store.EventPolicyFired, Subject: store.Subject{Kind: "policy", ID: fmt.Sprint(i)}}
			}
			return "", events
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		burst(store.MaxWaiting / 10)
	}
	full := queued(t, tn, h.ID)
	burst(3)
	list := queued(t, tn, h.ID)
	if len(full) != store.MaxWaiting || len(list) != store.MaxWaiting || list[0].ID != full[3].ID {
		t.Fatalf("%d and %d deliveries wait", len(full), len(list))
	}
	dropped := 0
	for i := range list {
		dropped += list[i].Dropped
	}
	if dropped != 3 || list[len(list)-1].Dropped != 1 {
		t.Errorf("%d are counted as dropped", dropped)
	}
}

// testEventsOfState: an event is queued with the mark that it depends on, or neither is.
func testEventsOfState(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	agent := newAgent(t, tn, "a")
	p99 := 1.0
	sla := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, P99LatencyMs: &p99, EvaluationPeriod: "1h"}))(t)
	h := webhook(t, tn, "h", store.EventSLABreached)
	production := must(tn.CreateWebhook(ctx, store.WebhookCreate{Name: "p", Environment: "production", Events: []string{store.EventSLABreached}, Enabled: true}))(t)
	const of = "targets"
	breach := func(mark string) (string, []store.Event) {
		if mark == "breached" {
			return mark, nil
		}
		return "breached", []store.Event{store.SLAEvent(store.EventSLABreached, &sla, 5, 0)}
	}
	if o.Fail != nil {
		o.Fail(func() error { return errors.New("disk") })
		if err := tn.NotifyOnce(ctx, of, breach); err == nil {
			t.Error("a failed write was no error")
		}
		o.Fail(nil)
	}
	for range 3 {
		if err := tn.NotifyOnce(ctx, of, breach); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{h.ID, production.ID} { // the environment is that of the agent
		if list := queued(t, tn, id); len(list) != 1 || list[0].Event.Data["currentP99Ms"] != 5.0 {
			t.Errorf("deliveries %+v", list)
		}
	}
}

// testFailingWebhook: a webhook whose attempts all fail for FailingFor is disabled.
func testFailingWebhook(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	h := webhook(t, tn, "h", store.EventAgentCreated)
	fail := func(after time.Duration, delivered bool) []store.Webhook {
		t.Helper()
		d := must(tn.TestWebhook(ctx, h.ID))(t)
		return must(tn.RecordAttempts(ctx, []store.Attempt{{WebhookID: h.ID, DeliveryID: d.ID, At: o.Clock.Now().Add(after), Delivered: delivered}}))(t)
	}
	fail(0, false)
	fail(store.FailingFor-time.Hour, true) // ends the time of failing
	fail(store.FailingFor, false)
	if off := fail(2*store.FailingFor-time.Hour, false); len(off) != 0 {
		t.Errorf("disabled too early: %+v", off)
	}
	if off := fail(2*store.FailingFor+time.Hour, false); len(off) != 1 || off[0].ID != h.ID || must(tn.GetWebhook(ctx, h.ID))(t).Enabled {
		t.Errorf("disabled %+v", off)
	}
	events, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{ObjectID: h.ID}, store.Page{Limit: 1})
	if err != nil || !slices.Equal(events[0].Changed, []string{"enabled"}) {
		t.Errorf("audit events %+v, %v", events, err)
	}
	// Enabled again, also by documents, it has all of the time once more.
	o.Clock.Advance(10 * store.FailingFor)
	on := true
	must(tn.Apply(ctx, func(all store.Contents, p store.Planner) ([]store.Change, error) {
		before, after := all.Webhooks[0], all.Webhooks[0]
		store.WebhookUpdate{Enabled: &on}.Apply(&after, p.Now)
		return []store.Change{{Before: &before, After: &after}}, nil
	}))(t)
	if h := must(tn.GetWebhook(ctx, h.ID))(t); !h.FailingSince.IsZero() || !h.Enabled {
		t.Errorf("enabled again %+v", h)
	}
	if off := fail(time.Hour, false); len(off) != 0 {
		t.Errorf("disabled at the first failure: %+v", off)
	}
	if h := must(tn.GetWebhook(ctx, h.ID))(t); h.FailingSince.IsZero() || !h.Enabled {
		t.Errorf("after a failure %+v", h)
	}
	if off := fail(time.Hour+store.FailingFor, false); len(off) != 1 {
		t.Error("it was not disabled once more")
	}
}
