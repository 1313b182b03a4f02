package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store"
)

// creations has a body for every POST that takes an Idempotency-Key.
func creations(r *rig) map[string]string {
	agent, team := r.agent(r.admin, "an agent"), r.team(r.admin, "a team")
	key := newCheckpointKey(r.t)
	r.ask(r.admin, "POST", "/api/audit/heads", key.body(r.t, "gateway-1", 1)).want(201)
	hook := "/api/webhooks/" + r.hook(r.admin, "a webhook")
	failed := r.endedDelivery(strings.TrimPrefix(hook, "/api/webhooks/"))
	return map[string]string{
		"/api/webhooks":        hookBody("new"),
		hook + "/rotateSecret": "",
		hook + "/test":         "",
		hook + "/redeliver":    `{"deliveryId":"` + failed + `"}`,

		"/api/audit/heads/accept":         fmt.Sprintf(`{"gateway":"gateway-1","publicKey":%q}`, key.public),
		"/api/teams":                      `{"name":"new"}`,
		"/api/teams/" + team + "/members": `{"email":"new@example.com"}`,
		"/api/agents":                     `{"name":"new"}`,
		"/api/costs/budgets":              budgetBody("new", agent, "daily", 1),
		"/api/costs/sla":                  slaBody("new", agent, `"p99LatencyMs":1,`, "1h"),
		"/api/policies":                   policyBody("new", ""),
		"/api/policies/templates/apply":   `{"template":"cost-guard"}`,
		"/api/keys":                       `{"name":"new","scope":"agent"}`,
		"/api/apply":                      `{"documents":[{"kind":"Agent","name":"declared"}]}`,
	}
}

// madeStatus is the success status of a POST.
func madeStatus(path string) int {
	if path == "/api/apply" || strings.HasSuffix(path, "/rotateSecret") {
		return 200
	}
	return 201
}

// showsSecret reports whether the first response to a POST has a secret, which a retry does not get.
func showsSecret(path string) bool {
	return path == "/api/keys" || path == "/api/webhooks" || strings.HasSuffix(path, "/rotateSecret")
}

// TestIdempotencyOnEveryPOST: every POST except ingest, approvals and the identity webhook takes an
// Idempotency-Key, and a retry gets the first response.
func TestIdempotencyOnEveryPOST(t *testing.T) {
	posts := map[string]bool{}
	for _, rt := range routes() {
		if rt.method == "POST" {
			exempt := rt.window == ingestWindow || rt.public ||
				rt.window == approvalWindow || rt.path == "/api/approvals/{id}/decision" // the same again changes nothing
			if rt.idempotent == exempt {
				t.Errorf("POST %s: takes an Idempotency-Key: %v", rt.path, rt.idempotent)
			}
			posts[rt.path] = rt.idempotent
		} else if rt.idempotent {
			t.Errorf("%s %s takes an Idempotency-Key", rt.method, rt.path)
		}
	}
	r := newRig(t)
	all := creations(r)
	for path, body := range all {
		t.Run(path, func(t *testing.T) {
			first := r.ask(r.admin, "POST", path, body, "Idempotency-Key", "k").want(madeStatus(path))
			again := r.ask(r.admin, "POST", path, body, "Idempotency-Key", "k").want(madeStatus(path))
			if showsSecret(path) {
				return // TestIdempotencyOfCreatedKey and TestSecretsOfWebhooks
			}
			if !bytes.Equal(first.raw, again.raw) {
				t.Errorf("first %s\nagain %s", first.raw, again.raw)
			}
			if first.header.Get("Idempotency-Replayed") != "" || again.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("Idempotency-Replayed is %q, then %q", first.header.Get("Idempotency-Replayed"), again.header.Get("Idempotency-Replayed"))
			}
		})
	}
	want := 0
	for _, once := range posts {
		if once {
			want++
		}
	}
	if len(all) != want {
		t.Errorf("%d POSTs tried, the route table has %d", len(all), want)
	}
}

// TestIdempotencyOfCreatedKey: the stored response is the first one without its
// secret, and no second key is created.
func TestIdempotencyOfCreatedKey(t *testing.T) {
	r := newRig(t)
	const body = `{"name":"new","scope":"agent"}`
	first := r.ask(r.admin, "POST", "/api/keys", body, "Idempotency-Key", "k").want(201).data()
	again := r.ask(r.admin, "POST", "/api/keys", body, "Idempotency-Key", "k").want(201).data()
	again.has(t, "id", "name", "scope", "prefix", "createdBy", "createdAt").is(t, "id", first["id"], "prefix", first["prefix"])
	if first["key"] == nil {
		t.Error("the first answer has no secret")
	}
	r.ask(r.admin, "GET", "/api/keys", "").want(200).object().is(t, "total", 2)
}

// TestIdempotencyScope: an Idempotency-Key belongs to the calling key and the route.
func TestIdempotencyScope(t *testing.T) {
	r := newRig(t)
	post := func(key, path, body string) object {
		t.Helper()
		return r.ask(key, "POST", path, body, "Idempotency-Key", "same").want(201).object()
	}
	team := post(r.admin, "/api/teams", `{"name":"x"}`)
	post(r.admin, "/api/agents", `{"name":"x"}`) // another route
	second, _ := r.key(r.admin, "api")
	r.ask(second, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "same").wantDetail("name") // another key: an idempotent request of its own
	post(r.other, "/api/teams", `{"name":"x"}`)                                                       // another tenant
	id := toObject(t, team["data"])["id"].(string)
	other := r.team(r.admin, "y")
	post(r.admin, "/api/teams/"+id+"/members", `{"email":"m@example.com"}`)
	post(r.admin, "/api/teams/"+other+"/members", `{"email":"m@example.com"}`) // the same endpoint of another team
	r.ask(r.admin, "GET", "/api/teams/"+other+"/members", "").want(200).object().is(t, "total", 1)
}

// TestIdempotencyOtherBody: the same key with another body is 400 and changes
// nothing.
func TestIdempotencyOtherBody(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "k").want(201)
	for _, body := range []string{`{"name":"y"}`, `{"name": "x"}`, ``} {
		r.ask(r.admin, "POST", "/api/teams", body, "Idempotency-Key", "k").wantDetail("Idempotency-Key")
	}
	r.ask(r.admin, "GET", "/api/teams", "").want(200).object().is(t, "total", 1)
}

// TestIdempotencyKeepsRefusals: a 4xx is stored too: a retry gets it even when its
// reason no longer exists.
func TestIdempotencyKeepsRefusals(t *testing.T) {
	r := newRig(t)
	id := r.team(r.admin, "x")
	first := r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "k").wantDetail("name")
	r.ask(r.admin, "DELETE", "/api/teams/"+id, "").want(200)
	again := r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "k").want(400)
	if !bytes.Equal(first.raw, again.raw) {
		t.Errorf("first %s, again %s", first.raw, again.raw)
	}
}

// TestIdempotencyLasts24Hours: a stored response expires after 24 hours.
func TestIdempotencyLasts24Hours(t *testing.T) {
	r := newRig(t)
	post := func() *reply { return r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "k") }
	post().want(201)
	r.clock.advance(24*time.Hour - time.Second)
	post().want(201)
	r.clock.advance(2 * time.Second)
	post().wantDetail("name") // the idempotent request has expired; the team exists
}

func TestIdempotencyKeyForm(t *testing.T) {
	r := newRig(t)
	for _, bad := range []string{strings.Repeat("k", 256), "with space", "tab\there", "nöt", "\x00"} {
		r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", bad).wantDetail("Idempotency-Key")
	}
	r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "a", "Idempotency-Key", "b").wantDetail("Idempotency-Key")
	r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", strings.Repeat("k", 255)).want(201)
	r.ask(r.admin, "POST", "/api/teams", `{"name":"y"}`, "Idempotency-Key", "").want(201) // none
}

// TestIdempotencyTwins: of concurrent duplicates one runs; the others wait and get
// its response.
func TestIdempotencyTwins(t *testing.T) {
	r := newRig(t)
	const n = 20
	answers := make([]*reply, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			answers[i] = r.ask(r.admin, "POST", "/api/agents", `{"name":"x"}`, "Idempotency-Key", "k")
		})
	}
	wg.Wait()
	worked := 0
	for _, a := range answers {
		a.want(201)
		if !bytes.Equal(a.raw, answers[0].raw) {
			t.Errorf("%s\n%s", a.raw, answers[0].raw)
		}
		if a.header.Get("Idempotency-Replayed") == "" {
			worked++
		}
	}
	if worked != 1 {
		t.Errorf("%d did the work", worked)
	}
	r.ask(r.admin, "GET", "/api/agents", "").want(200).object().is(t, "total", 1)
}

// twinStore blocks CreateTeam until the test lets it continue or fail.
type twinStore struct {
	store.Records
	gate chan error // one value for each CreateTeam
}

type twinTenant struct {
	store.Tenant
	gate chan error
}

func (s twinStore) Tenant(id string) store.Tenant { return twinTenant{s.Records.Tenant(id), s.gate} }

func (t twinTenant) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	select {
	case err := <-t.gate:
		if err != nil {
			return store.Team{}, err
		}
	case <-ctx.Done():
		return store.Team{}, ctx.Err()
	}
	return t.Tenant.CreateTeam(ctx, in)
}

// TestIdempotencyTwinInFlight: a duplicate waits for the first request, runs when
// that one fails with a 5xx, and stops waiting when its client disconnects.
func TestIdempotencyTwinInFlight(t *testing.T) {
	gate := make(chan error)
	r := newRig(t, func(o *Options) { o.Records = twinStore{o.Records, gate} })
	type result struct {
		name string
		code int
		body string
	}
	done := make(chan result, 3)
	start := func(ctx context.Context, name string) {
		req := httptest.NewRequest("POST", "/api/teams", strings.NewReader(`{"name":"x"}`)).WithContext(ctx)
		req.Header.Set("Authorization", "Bearer "+r.admin)
		req.Header.Set("Idempotency-Key", "k")
		go func() {
			w := httptest.NewRecorder()
			r.srv.ServeHTTP(w, req)
			done <- result{name, w.Code, w.Body.String()}
		}()
	}
	start(context.Background(), "first")
	time.Sleep(20 * time.Millisecond) // lets the duplicate begin to wait; the result does not depend on it
	start(context.Background(), "second")
	impatient, leave := context.WithCancel(context.Background())
	start(impatient, "third")
	select {
	case got := <-done:
		t.Fatalf("%s was answered while the work is not done: %d %s", got.name, got.code, got.body)
	case <-time.After(50 * time.Millisecond):
	}
	leave()
	<-done // the client of the third has disconnected, so its result does not matter
	gate <- errors.New("disk on fire")
	failed := <-done
	if failed.code != 500 || strings.Contains(failed.body, "fire") {
		t.Errorf("%d %s", failed.code, failed.body)
	}
	gate <- nil // now the duplicate runs
	ok := <-done
	if ok.code != 201 || ok.name == failed.name {
		t.Errorf("%s: %d %s", ok.name, ok.code, ok.body)
	}
}

// TestIdempotencyClientLeaves: the response is stored although the client
// disconnected before it was written.
func TestIdempotencyClientLeaves(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.srv.records = leavingStore{r.store, cancel}
	req := httptest.NewRequest("POST", "/api/teams", strings.NewReader(`{"name":"x"}`)).WithContext(ctx)
	req.Header.Set("Authorization", "Bearer "+r.admin)
	req.Header.Set("Idempotency-Key", "k")
	r.srv.ServeHTTP(httptest.NewRecorder(), req)
	r.srv.records = r.store
	a := r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "k").want(201)
	if a.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the work was done again")
	}
}

// leavingStore disconnects the client right after a team was created.
type leavingStore struct {
	store.Records
	leave func()
}

type leavingTenant struct {
	store.Tenant
	leave func()
}

func (s leavingStore) Tenant(id string) store.Tenant {
	return leavingTenant{s.Records.Tenant(id), s.leave}
}

// FinishAttempt fails when its context is canceled, like a store across a network.
func (t leavingTenant) FinishAttempt(ctx context.Context, a store.IdempotentRequest, answer store.StoredResponse) error {
	if err := ctx.Err(); err != nil {
		return errors.Join(err, t.AbandonAttempt(context.WithoutCancel(ctx), a))
	}
	return t.Tenant.FinishAttempt(ctx, a, answer)
}

func (t leavingTenant) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	team, err := t.Tenant.CreateTeam(ctx, in)
	t.leave()
	return team, err
}

// TestIdempotencyWhenTheStoreFailsAfterTheChange: the store fails every write after
// the change of a request. The response was stored in the transaction of the change,
// so no retry makes the change again.
func TestIdempotencyWhenTheStoreFailsAfterTheChange(t *testing.T) {
	r := newRig(t)
	for path, body := range creations(r) {
		r.srv.records = unfinishingStore{r.store}
		first := r.ask(r.admin, "POST", path, body, "Idempotency-Key", "k").want(madeStatus(path))
		r.srv.records = r.store
		again := r.ask(r.admin, "POST", path, body, "Idempotency-Key", "k").want(madeStatus(path))
		if again.header.Get("Idempotency-Replayed") != "true" || !showsSecret(path) && !bytes.Equal(first.raw, again.raw) {
			t.Errorf("POST %s: the retry got %s, the first %s", path, again.raw, first.raw)
		}
	}
}

// unfinishingStore fails FinishAttempt, so it stores no response outside the
// transaction of a change.
type unfinishingStore struct{ store.Records }

type unfinishingTenant struct{ store.Tenant }

func (s unfinishingStore) Tenant(id string) store.Tenant {
	return unfinishingTenant{s.Records.Tenant(id)}
}

func (unfinishingTenant) FinishAttempt(context.Context, store.IdempotentRequest, store.StoredResponse) error {
	return errors.New("the store takes no writes")
}

// TestIdempotencyPanic: a panic of the handler releases the idempotent request, so
// that a retry does not wait until it expires.
func TestIdempotencyPanic(t *testing.T) {
	r := newRig(t)
	r.srv.records = panickyStore{r.store}
	r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "k").want(500)
	r.srv.records = r.store
	r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`, "Idempotency-Key", "k").want(201)
}

type panickyStore struct{ store.Records }

type panickyTenant struct{ store.Tenant }

func (s panickyStore) Tenant(id string) store.Tenant { return panickyTenant{s.Records.Tenant(id)} }

func (panickyTenant) CreateTeam(context.Context, store.TeamCreate) (store.Team, error) {
	panic(fmt.Sprint("out of ", "cheese"))
}
