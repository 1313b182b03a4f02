package server

import (
	"context"
	"strings"
	"testing"

	"svc/store"
	"svc/store/api"
)

func hookBody(name string) string {
	return `{"name":"` + name + `","url":"https://hooks.example/services/T0/B0/secretsecretABCD","events":["agent.created"]}`
}

// hook creates a webhook and returns its id.
func (r *rig) hook(key, name string) string {
	r.t.Helper()
	return r.ask(key, "POST", "/api/webhooks", hookBody(name)).want(201).data().id(r.t)
}

// endedDelivery returns the id of a delivery of a webhook of tenant one that has failed.
func (r *rig) endedDelivery(hook string) string {
	r.t.Helper()
	tn := r.store.Tenant("one")
	d, err := tn.TestWebhook(context.Background(), hook)
	if err != nil {
		r.t.Fatal(err)
	}
	for range store.MaxTries {
		if _, err := tn.RecordAttempts(context.Background(), []store.Attempt{{WebhookID: hook, DeliveryID: d.ID, At: epoch, Error: "refused", NextAt: epoch}}); err != nil {
			r.t.Fatal(err)
		}
	}
	return d.ID
}

// The URL and the signing secret are shown once, or never.
func TestSecretsOfWebhooks(t *testing.T) {
	r := newRig(t)
	created := r.ask(r.admin, "POST", "/api/webhooks", hookBody("ops"), "Idempotency-Key", "k").want(201)
	h := created.data()
	secret, _ := h["secret"].(string)
	if !strings.HasPrefix(secret, "whsec_") || len(secret) != 49 || h["url"] != "https://hooks.example/services/…ABCD" || h["enabled"] != true || h["format"] != "json" {
		t.Fatalf("created %s", created.raw)
	}
	id := h.id(t)
	rotated := r.ask(r.admin, "POST", "/api/webhooks/"+id+"/rotateSecret", "").want(200)
	if again, _ := rotated.data()["secret"].(string); again == secret || !strings.HasPrefix(again, "whsec_") {
		t.Errorf("rotated %s", rotated.raw)
	}
	for _, a := range []*reply{r.ask(r.admin, "POST", "/api/webhooks", hookBody("ops"), "Idempotency-Key", "k").want(201), r.ask(r.admin, "GET", "/api/webhooks/"+id, "").want(200),
		r.ask(r.admin, "GET", "/api/webhooks", "").want(200), r.ask(r.admin, "PUT", "/api/webhooks/"+id, `{"enabled":true}`).want(200), r.ask(r.admin, "GET", "/api/audit/events", "").want(200)} {
		if strings.Contains(string(a.raw), "whsec_") || strings.Contains(string(a.raw), "secretsecret") {
			t.Errorf("%s: %s", a.what, a.raw)
		}
	}
}

func TestShortURLs(t *testing.T) {
	for url, want := range map[string]string{
		"https://hooks.slack.com/services/T0/B0/abcdefghWXYZ":   "https://hooks.slack.com/services/…WXYZ",
		"https://h.example/aVeryLongSecretToken":                "https://h.example/…oken",
		"https://h.example/short":                               "https://h.example/…",
		"https://h.example:8443":                                "https://h.example:8443/…",
		"https://h.example/a/b":                                 "https://h.example/a/…",
		"https://h.example/hook?token=abcdefghijklmnop":         "https://h.example/…mnop",
		"https://h.example/first/hook?token=abcdefghijklmnop12": "https://h.example/first/…op12",
	} {
		if got := api.ShortURL(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestBodiesOfWebhooks(t *testing.T) {
	r := newRig(t)
	id := r.hook(r.admin, "one")
	for body, field := range map[string]string{
		hookBody("one"): "name",
		`{"name":"a","url":"http://h.example/","events":["agent.created"]}`:                         "url",
		`{"name":"a","url":"https://u:p@h.example/","events":["agent.created"]}`:                    "url",
		`{"name":"a","url":"https://h.example/#x","events":["agent.created"]}`:                      "url",
		`{"name":"a","url":"file:///etc/passwd","events":["agent.created"]}`:                        "url",
		`{"name":"a","url":"https://h.example/","events":[]}`:                                       "events",
		`{"name":"a","url":"https://h.example/","events":["webhook.test"]}`:                         "events[0]",
		`{"name":"a","url":"https://h.example/","events":["sla.breached"],"agentId":"agt_unknown"}`: "agentId",
	} {
		r.ask(r.admin, "POST", "/api/webhooks", body).wantDetail(field)
	}
	r.ask(r.admin, "PUT", "/api/webhooks/"+id, `{"url":"https://hooks.example/services/…ABCD","name":"two"}`).want(200)
	r.ask(r.admin, "PUT", "/api/webhooks/"+id, `{"url":"https://hooks.example/services/…OTHER"}`).wantDetail("url")
	if h, err := r.store.Tenant("one").GetWebhook(t.Context(), id); err != nil || h.URL != "https://hooks.example/services/T0/B0/secretsecretABCD" || h.Name != "two" {
		t.Errorf("%+v, %v", h, err)
	}
	plain := newRig(t, func(o *Options) { o.WebhookHTTP = true })
	plain.ask(plain.admin, "POST", "/api/webhooks", `{"name":"a","url":"http://10.0.0.1/","events":["agent.created"]}`).want(201)
}

func TestDeliveries(t *testing.T) {
	r := newRig(t)
	id := r.hook(r.admin, "one")
	at := "/api/webhooks/" + id
	r.agent(r.admin, "planner")
	test := r.ask(r.admin, "POST", at+"/test", "").want(201).data()
	if test["state"] != "waiting" || test["webhookId"] != id {
		t.Errorf("test %v", test)
	}
	failed := r.endedDelivery(id)
	list := r.ask(r.admin, "GET", at+"/deliveries", "").want(200)
	list.object().is(t, "total", 3)
	for _, want := range []string{`"type":"agent.created"`, `"name":"planner"`, `"tenant":"one"`, `"error":"refused"`} {
		if !strings.Contains(string(list.raw), want) {
			t.Errorf("no %s in %s", want, list.raw)
		}
	}
	r.ask(r.admin, "GET", at+"/deliveries?state=failed", "").want(200).object().is(t, "total", 1)
	r.ask(r.admin, "GET", at+"/deliveries?state=x", "").wantDetail("state")
	again := r.ask(r.admin, "POST", at+"/redeliver", `{"deliveryId":"`+failed+`"}`).want(201).data()
	r.ask(r.admin, "POST", at+"/redeliver", `{"deliveryId":"`+again.id(t)+`"}`).wantDetail("state")
	r.ask(r.admin, "POST", at+"/redeliver", `{"deliveryId":"dlv_unknown"}`).want(404)
}

// A key that is limited to a team has the webhooks of its team only.
func TestWebhooksOfATeam(t *testing.T) {
	r := newRig(t)
	team := r.team(r.admin, "ops", "policies:read", "policies:write")
	limited := r.ask(r.admin, "POST", "/api/keys", `{"name":"k","scope":"api","teamId":"`+team+`"}`).want(201).data()["key"].(string)
	other := r.hook(r.admin, "of all")
	own := r.hook(limited, "of the team")
	if h := r.ask(r.admin, "GET", "/api/webhooks/"+own, "").want(200).data(); h["teamId"] != team {
		t.Errorf("%v", h)
	}
	r.ask(limited, "GET", "/api/webhooks", "").want(200).object().is(t, "total", 1)
	r.ask(r.admin, "GET", "/api/webhooks", "").want(200).object().is(t, "total", 2)
	for _, c := range [][3]string{{"GET", "", ""}, {"PUT", "", `{"url":"https://evil.example/"}`}, {"DELETE", "", ""}, {"POST", "/rotateSecret", ""}, {"POST", "/test", ""},
		{"GET", "/deliveries", ""}, {"POST", "/redeliver", `{"deliveryId":"dlv_1"}`}} {
		r.ask(limited, c[0], "/api/webhooks/"+other+c[1], c[2]).want(404)
	}
	r.ask(limited, "PUT", "/api/webhooks/"+own, `{"enabled":false}`).want(200)
	r.ask(r.admin, "DELETE", "/api/teams/"+team, "").want(200)
	r.ask(r.admin, "GET", "/api/webhooks/"+own, "").want(404)
}

// A call that a gateway refused because of a changed definition queues one message an hour and tool.
func TestToolChanged(t *testing.T) {
	r := newRig(t)
	id := r.ask(r.admin, "POST", "/api/webhooks", `{"name":"h","url":"https://h.example/","events":["tool.changed"]}`).want(201).data().id(t)
	report := func(trace, tool, reason string) {
		t.Helper()
		r.ask(r.admin, "POST", "/api/traces", `{"traces":[{"id":"`+trace+`","agentName":"a","status":"error","blocked":true,"durationMs":1,"toolName":"`+tool+`","reason":"`+reason+`","errorKind":"`+reason+`"}]}`).want(201)
	}
	want := func(n int) {
		t.Helper()
		r.ask(r.admin, "GET", "/api/webhooks/"+id+"/deliveries", "").want(200).object().is(t, "total", n)
	}
	report("1", "search", "tool_changed")
	report("1", "search", "tool_changed")
	report("2", "search", "tool_changed")
	report("3", "other", "policy_denied")
	want(1)
	report("4", "write", "tool_changed")
	want(2)
	r.clock.advance(toolEvery)
	report("5", "search", "tool_changed")
	want(3)
}

// Documents declare webhooks: the URL is never shown, and a document for which a team-limited key would
// be needed is refused.
func TestWebhookDocuments(t *testing.T) {
	r := newRig(t)
	apply := func(key, spec string) *reply {
		return r.ask(key, "POST", "/api/apply", `{"documents":[{"kind":"Webhook","name":"on call","spec":`+spec+`}]}`)
	}
	const spec = `{"url":"https://hooks.example/services/T0000/abcdefgh1234","events":["agent.created"]}`
	apply(r.admin, spec).want(200)
	if a := apply(r.admin, spec).want(200); !strings.Contains(string(a.raw), `"change":"none"`) {
		t.Errorf("the same document: %s", string(a.raw))
	}
	if a := apply(r.admin, strings.Replace(spec, "T0000", "T9999", 1)).want(200); !strings.Contains(string(a.raw), `"fields":["url"]`) {
		t.Errorf("another URL: %s", string(a.raw))
	}
	a := r.ask(r.admin, "GET", "/api/apply", "").want(200)
	if !strings.Contains(string(a.raw), "${SVC_WEBHOOK_ON_CALL_URL}") || strings.Contains(string(a.raw), "hooks.example") {
		t.Errorf("export %s", string(a.raw))
	}
	for _, wrong := range []string{
		`{"url":"http://hooks.example/x","events":["agent.created"]}`, `{"url":"${SVC_WEBHOOK_ON_CALL_URL}","events":["agent.created"]}`,
		`{"url":"https://hooks.example/x","events":["agent.created"],"agent":"nobody"}`, `{"url":"https://hooks.example/x","events":[]}`,
	} {
		if a := apply(r.admin, wrong).want(400); !strings.Contains(string(a.raw), "documents[0].spec.") {
			t.Errorf("%s: %s", wrong, string(a.raw))
		}
	}
	key, _ := r.teamKey("ops", "policies:read", "policies:write", "agents:read", "costs:read", "teams:read")
	apply(key, spec).want(403)
	if a := r.ask(key, "GET", "/api/apply", "").want(200); strings.Contains(string(a.raw), "Webhook") {
		t.Errorf("a limited key exports %s", string(a.raw))
	}
}
