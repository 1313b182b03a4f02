package server

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/bolt"
)

func (r *rig) user(tenant, id string) (store.User, error) {
	return r.store.Tenant(tenant).GetUser(context.Background(), id)
}

// wantUser fails the test unless the user has the status.
func (r *rig) wantUser(id string, status store.UserStatus) store.User {
	r.t.Helper()
	u, err := r.user("one", id)
	if err != nil || u.Status != status {
		r.t.Fatalf("user %s: %+v, %v; want %s", id, u, err, status)
	}
	return u
}

// TestWebhookRow is POST /api/auth/webhook: 200 {"success": true} on a good
// delivery, 403 {"error": "Invalid webhook signature"} on a bad signature.
func TestWebhookRow(t *testing.T) {
	r := newRig(t)
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200).object().has(t, "success").is(t, "success", true)
	const body = `{"type":"user.created"}`
	for name, header := range map[string]string{
		"wrong":   sign("other", epoch.Unix(), body),
		"missing": "",
	} {
		a := r.ask("", "POST", "/api/auth/webhook", body, signatureHeader, header).want(403)
		if got := string(a.raw); got != `{"error":"Invalid webhook signature"}` {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, at := range []int64{epoch.Unix() - 301, epoch.Unix() + 301} { // stale, future
		a := r.ask("", "POST", "/api/auth/webhook", body, signatureHeader, sign(webhookSecret, at, body)).want(403)
		a.object().is(t, "error", "Invalid webhook signature")
		if a.detail("timestamp") == "" {
			t.Errorf("no details.timestamp: %s", a.raw)
		}
	}
	t.Run("an API key does not replace the signature", func(t *testing.T) {
		r.ask(r.admin, "POST", "/api/auth/webhook", body).want(403)
	})
	t.Run("without a secret everything is refused", func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.IdentitySecret = "" })
		r.ask("", "POST", "/api/auth/webhook", body, signatureHeader, sign("", epoch.Unix(), body)).want(403)
	})
	t.Run("the raw body is signed, not its meaning", func(t *testing.T) {
		body := "{ \"type\" : \"user.created\",\n\"createdAt\":\"2026-03-01T12:00:00Z\",\"data\":{\"userId\":\"raw\",\"orgId\":\"org_one\"}}"
		r.deliver(body).want(200)
	})
}

// TestWebhookMalformed: malformed but signed is 400.
func TestWebhookMalformed(t *testing.T) {
	r := newRig(t)
	for name, body := range map[string]string{
		"empty":           ``,
		"not JSON":        `user.created`,
		"array":           `[]`,
		"no type":         `{"createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","orgId":"org_one"}}`,
		"type no string":  `{"type":5}`,
		"no createdAt":    `{"type":"user.created","data":{"userId":"u","orgId":"org_one"}}`,
		"bad createdAt":   `{"type":"user.created","createdAt":"yesterday","data":{"userId":"u","orgId":"org_one"}}`,
		"no data":         `{"type":"user.created","createdAt":"2026-03-01T12:00:00Z"}`,
		"no userId":       `{"type":"user.created","createdAt":"2026-03-01T12:00:00Z","data":{"orgId":"org_one"}}`,
		"userId a number": `{"type":"user.created","createdAt":"2026-03-01T12:00:00Z","data":{"userId":7,"orgId":"org_one"}}`,
		"bad email":       `{"type":"user.created","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","email":"x","orgId":"org_one"}}`,
		"duplicate":       `{"type":"user.created","type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","orgId":"org_one"}}`,
		"NUL":             `{"type":"user.created","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u\u0000","orgId":"org_one"}}`,
		"duplicate user":  `{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","userId":"v","orgId":"org_one"}}`,
		"duplicate data":  `{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","orgId":"org_one"},"data":{}}`,
		"escaped twice":   `{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","user\u0049d":"v","orgId":"org_one"}}`,
		"cut in data":     `{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u"`,
		"bad metadata":    `{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","orgId":"org_one","metadata":{"a":}}}`,
		"trailing data":   `{"type":"user.created","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","orgId":"org_one"}} x`,
	} {
		t.Run(name, func(t *testing.T) {
			if body == "" {
				r.ask("", "POST", "/api/auth/webhook", "", signatureHeader, sign(webhookSecret, epoch.Unix(), "")).want(400)
				return
			}
			r.deliver(body).want(400)
		})
	}
	t.Run("fields that the provider adds are ignored", func(t *testing.T) {
		r.deliver(`{"type":"user.created","id":"evt_1","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","email":null,"orgId":"org_one","locale":"de"}}`).want(200)
	})
}

// TestWebhookUnknownType: an event of unknown type is answered 200 and logged,
// whatever its data is.
func TestWebhookUnknownType(t *testing.T) {
	r := newRig(t)
	r.webhook("user.promoted", epoch, "u9", "u9@example.com", "org_one").want(200)
	events, total, err := r.store.Tenant("one").ListUserEvents(context.Background(), store.Page{})
	if err != nil || total != 1 || events[0].Event.Type != "user.promoted" || events[0].Applied {
		t.Errorf("recorded %+v, %v", events, err)
	}
	if _, err := r.user("one", "u9"); store.KindOf(err) != store.NotFound {
		t.Errorf("an unknown event made a user: %v", err)
	}
	r.deliver(`{"type":"organization.updated","data":{"members":[1,2,3]}}`).want(200)
	r.deliver(`{"type":"ping"}`).want(200)
}

// TestWebhookTenant: data.orgId selects the tenant that is bound to it. In an
// install with a single tenant an unbound organization means that tenant; otherwise
// it is 404.
func TestWebhookTenant(t *testing.T) {
	r := newRig(t)
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_two").want(200)
	if _, err := r.user("two", "u1"); err != nil {
		t.Errorf("the bound tenant lacks the user: %v", err)
	}
	if _, err := r.user("one", "u1"); store.KindOf(err) != store.NotFound {
		t.Errorf("the other tenant has the user: %v", err)
	}
	r.webhook("user.created", epoch, "u2", "u2@example.com", "org_unknown").want(404)
	r.webhook("user.created", epoch, "u2", "u2@example.com", "").want(404)
}

// TestWebhookSingleTenant: a single tenant without a bound organization takes the
// events of every organization; with one it takes only the events of that
// organization.
func TestWebhookSingleTenant(t *testing.T) {
	for _, row := range []struct {
		bound, sent string
		status      int
	}{{"", "org_any", 200}, {"", "", 200}, {"org_a", "org_a", 200}, {"org_a", "org_b", 404}, {"org_a", "", 404}} {
		t.Run(row.bound+" "+row.sent, func(t *testing.T) {
			st, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			r := newRig(t, func(o *Options) { o.Records = st })
			r.store = st
			r.tenant("only", row.bound)
			r.webhook("user.created", epoch, "u1", "u1@example.com", row.sent).want(row.status)
			if _, err := r.user("only", "u1"); (err == nil) != (row.status == 200) {
				t.Errorf("the tenant's user: %v", err)
			}
		})
	}
}

// TestWebhookEvents has a test per row of the specification's table "Events".
func TestWebhookEvents(t *testing.T) {
	at := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }
	send := func(r *rig, typ string, n int) {
		r.t.Helper()
		r.webhook(typ, at(n), "u1", "u1@example.com", "org_one").want(200)
	}
	// withKey makes the user and a key of theirs.
	withKey := func(t *testing.T) (*rig, string) {
		r := newRig(t)
		send(r, "user.created", 0)
		secret, _ := r.key(r.admin, "api", "userId", "u1")
		r.ask(secret, "GET", "/api/teams", "").want(200)
		return r, secret
	}
	t.Run("user.created provisions the user with the default role", func(t *testing.T) {
		r := newRig(t)
		send(r, "user.created", 0)
		u := r.wantUser("u1", store.UserActive)
		if u.Email != "u1@example.com" || u.DisplayName != "Some One" || u.Role != "member" {
			t.Errorf("%+v", u)
		}
	})
	t.Run("user.created replayed makes no duplicate", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		for range 5 { // the provider's five attempts
			send(r, "user.created", 0)
		}
		r.ask(r.admin, "POST", "/api/teams/"+team+"/members", `{"email":"u1@example.com"}`).want(201).object().is(t, "userId", "u1")
		r.ask(r.admin, "POST", "/api/teams/"+team+"/members", `{"userId":"u1"}`).want(400)
	})
	t.Run("user.updated changes e-mail and name", func(t *testing.T) {
		r := newRig(t)
		send(r, "user.created", 0)
		r.webhook("user.updated", at(1), "u1", "new@example.com", "org_one").want(200)
		if u := r.wantUser("u1", store.UserActive); u.Email != "new@example.com" {
			t.Errorf("%+v", u)
		}
	})
	t.Run("user.deactivated silences every key the user created", func(t *testing.T) {
		r, secret := withKey(t)
		_, id := r.key(secret, "agent")
		send(r, "user.deactivated", 1)
		r.ask(secret, "GET", "/api/teams", "").want(401)
		r.ask(r.admin, "DELETE", "/api/keys/"+id, "").want(200) // the keys are disabled, not deleted
		r.ask(r.admin, "POST", "/api/keys", `{"name":"x","scope":"api","userId":"u1"}`).wantDetail("userId")
		r.ask(r.admin, "GET", "/api/teams", "").want(200) // other users' keys work
	})
	t.Run("user.reactivated lets them work again", func(t *testing.T) {
		r, secret := withKey(t)
		send(r, "user.deactivated", 1)
		send(r, "user.reactivated", 2)
		r.ask(secret, "GET", "/api/teams", "").want(200)
	})
	t.Run("user.deleted deletes keys and memberships", func(t *testing.T) {
		r, secret := withKey(t)
		team := r.team(r.admin, "x")
		r.ask(r.admin, "POST", "/api/teams/"+team+"/members", `{"userId":"u1"}`).want(201)
		send(r, "user.deleted", 1)
		r.ask(secret, "GET", "/api/teams", "").want(401)
		r.ask(r.admin, "GET", "/api/teams/"+team, "").want(200).data().is(t, "memberCount", 0)
		r.ask(r.admin, "GET", "/api/keys", "").want(200).object().is(t, "total", 1)
		send(r, "user.reactivated", 2)
		r.ask(secret, "GET", "/api/teams", "").want(401) // deleted keys are not restored
	})
	t.Run("session.terminated is recorded", func(t *testing.T) {
		r, secret := withKey(t)
		send(r, "session.terminated", 1)
		if u := r.wantUser("u1", store.UserActive); !u.LastSessionEndedAt.Equal(at(1)) {
			t.Errorf("%+v", u)
		}
		r.ask(secret, "GET", "/api/teams", "").want(200)
	})
	t.Run("an invited user is linked when announced", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		r.ask(r.admin, "POST", "/api/teams/"+team+"/members", `{"email":"U1@example.com","role":"owner"}`).want(201)
		send(r, "user.created", 0)
		r.ask(r.admin, "GET", "/api/teams/"+team+"/members", "").want(200).list()[0].is(t, "userId", "u1", "email", "u1@example.com", "role", "owner")
	})
	t.Run("every event is idempotent", func(t *testing.T) {
		for _, typ := range []string{"user.created", "user.updated", "user.deactivated", "user.reactivated", "user.deleted", "session.terminated"} {
			r := newRig(t)
			send(r, "user.created", 0)
			for range 3 {
				send(r, typ, 1)
			}
		}
	})
}

// TestWebhookOrder: events are ordered per user by createdAt, not by arrival: a
// late or repeated event never undoes a newer one.
func TestWebhookOrder(t *testing.T) {
	type event struct {
		typ string
		at  int
	}
	for _, tc := range []struct {
		name   string
		events []event // in order of arrival
		keys   int     // status of a request with the user's key; 0: no key could be created
	}{
		{"late deactivation", []event{{"user.reactivated", 3}, {"user.deactivated", 2}}, 200},
		{"retried deactivation", []event{{"user.deactivated", 2}, {"user.reactivated", 3}, {"user.deactivated", 2}}, 200},
		{"late reactivation", []event{{"user.deactivated", 3}, {"user.reactivated", 2}}, 401},
		{"deleted, then what came before", []event{{"user.deleted", 5}, {"user.reactivated", 3}, {"user.created", 0}, {"user.updated", 4}}, 401},
		{"same moment: the stricter wins", []event{{"user.deactivated", 2}, {"user.created", 2}}, 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.webhook("user.created", epoch.Add(time.Second), "u1", "u1@example.com", "org_one").want(200)
			secret, _ := r.key(r.admin, "api", "userId", "u1")
			for _, e := range tc.events {
				r.webhook(e.typ, epoch.Add(time.Duration(e.at)*time.Second), "u1", "u1@example.com", "org_one").want(200)
			}
			r.ask(secret, "GET", "/api/teams", "").want(tc.keys)
		})
	}
	t.Run("deleted before created leaves a tombstone", func(t *testing.T) {
		r := newRig(t)
		r.webhook("user.deleted", epoch.Add(5*time.Second), "u1", "", "org_one").want(200)
		r.webhook("user.created", epoch.Add(time.Second), "u1", "u1@example.com", "org_one").want(200)
		if _, err := r.user("one", "u1"); store.KindOf(err) != store.NotFound {
			t.Errorf("the user is back: %v", err)
		}
		r.webhook("user.created", epoch.Add(10*time.Second), "u1", "u1@example.com", "org_one").want(200) // truly newer
		r.wantUser("u1", store.UserActive)
	})
	t.Run("a late update does not undo a newer one", func(t *testing.T) {
		r := newRig(t)
		r.webhook("user.created", epoch, "u1", "a@example.com", "org_one").want(200)
		r.webhook("user.updated", epoch.Add(3*time.Second), "u1", "c@example.com", "org_one").want(200)
		r.webhook("user.updated", epoch.Add(2*time.Second), "u1", "b@example.com", "org_one").want(200)
		if u := r.wantUser("u1", store.UserActive); u.Email != "c@example.com" {
			t.Errorf("%+v", u)
		}
	})
}

// TestWebhookWindow: signed events do not count in the window of their address; all
// other requests do.
func TestWebhookWindow(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit = 3 })
	for i := range 20 {
		a := r.webhook("user.created", epoch, fmt.Sprint("u", i), fmt.Sprintf("u%d@example.com", i), "org_one").want(200)
		if got := a.header.Get("X-RateLimit-Remaining"); got != "3" {
			t.Fatalf("event %d: remaining %s", i, got)
		}
	}
	for range 3 {
		r.ask("", "POST", "/api/auth/webhook", "{}", signatureHeader, "t=1,v1=00").want(403)
	}
	r.ask("", "POST", "/api/auth/webhook", "{}", signatureHeader, "t=1,v1=00").want(429)
	r.webhook("user.created", epoch, "last", "last@example.com", "org_one").want(200)
	r.ask(r.admin, "GET", "/api/teams", "").want(200) // the tenant has a separate window
}

// TestWebhookBodyLimit: a body of more than 1 MiB is rejected before the signature
// is computed.
func TestWebhookBodyLimit(t *testing.T) {
	r := newRig(t)
	body := `{"type":"x","pad":"` + strings.Repeat("a", 1<<20) + `"}`
	r.deliver(body).wantDetail("body")
}

// TestUsersCannotMakeTheirRevocationInvalid: for any name or address that a user
// chooses, the events that end the user's access take effect.
func TestUsersCannotMakeTheirRevocationInvalid(t *testing.T) {
	for name, chosen := range map[string]string{
		"a long name":               `"displayName":"` + strings.Repeat("x", 201) + `","email":"u1@example.com"`,
		"a name with controls":      `"displayName":"a\u0000\u001b[2Jb\u0007"`,
		"half a character":          `"displayName":"\ud800"`,
		"bytes that are no UTF-8":   "\"displayName\":\"\xff\"",
		"an address that is none":   `"email":"\"u 1\"@example.com"`,
		"a NUL in the address":      `"email":"u1\u0000@example.com"`,
		"a long address":            `"email":"` + strings.Repeat("u", 300) + `@example.com"`,
		"members of another type":   `"displayName":{"first":"U"},"email":["u1@example.com"]`,
		"null for everything":       `"displayName":null,"email":null`,
		"nothing but what it needs": `"locale":"de"`,
		"a deep name":               `"displayName":` + strings.Repeat("[", 33) + strings.Repeat("]", 33),
		"deep metadata":             `"metadata":` + strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000),
		"wide metadata":             `"metadata":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 10_000), ",") + "}",
		"many members":              manyMembers(300),
	} {
		t.Run(name, func(t *testing.T) {
			for typ, status := range map[string]int{"user.deleted": 401, "user.deactivated": 401, "session.terminated": 200} {
				r := newRig(t)
				r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
				secret, _ := r.key(r.admin, "api", "userId", "u1")
				r.clock.advance(time.Second)
				r.deliver(fmt.Sprintf(`{"type":%q,"createdAt":%q,"data":{"userId":"u1","orgId":"org_one",%s}}`,
					typ, r.clock.Now().Format(time.RFC3339Nano), chosen)).want(200)
				r.ask(secret, "GET", "/api/teams", "").want(status)
			}
		})
	}
	t.Run("userId and createdAt are needed", func(t *testing.T) {
		r := newRig(t)
		r.deliver(`{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"orgId":"org_one"}}`).wantDetail("data.userId")
		r.deliver(`{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"a\u0000","orgId":"org_one"}}`).wantDetail("data.userId")
		r.deliver(`{"type":"user.deleted","data":{"userId":"u1","orgId":"org_one"}}`).wantDetail("createdAt")
	})
}

func manyMembers(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"m%d":{"userId":"other"}`, i)
	}
	return strings.Join(members, ",")
}

// TestWebhookCutsLongNames: a display name that is too long or has control
// characters does not prevent the creation of its user.
func TestWebhookCutsLongNames(t *testing.T) {
	r := newRig(t)
	for typ, rest := range map[string]string{"user.created": "x", "user.updated": "y"} {
		r.clock.advance(time.Second)
		r.deliver(fmt.Sprintf(`{"type":%q,"createdAt":%q,"data":{"userId":%q,"displayName":"ä\u0000\u0007%s","orgId":"org_one"}}`,
			typ, r.clock.Now().Format(time.RFC3339Nano), typ, strings.Repeat(rest, 300))).want(200)
		if u := r.wantUser(typ, store.UserActive); u.DisplayName != "ä"+strings.Repeat(rest, 199) {
			t.Errorf("%s: display name %q", typ, u.DisplayName)
		}
	}
}

// TestAnEventDatedInTheFutureDoesNotOutrankLaterOnes: its time of receipt is used
// instead, and a warning is logged.
func TestAnEventDatedInTheFutureDoesNotOutrankLaterOnes(t *testing.T) {
	r := newRig(t)
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
	secret, _ := r.key(r.admin, "api", "userId", "u1")
	r.clock.advance(time.Minute)
	r.deliver(fmt.Sprintf(`{"type":"user.reactivated","createdAt":%q,"data":{"userId":"u1","orgId":"org_one"}}`,
		r.clock.Now().AddDate(1, 0, 0).Format(time.RFC3339))).want(200)
	if !strings.Contains(r.log.String(), "dated in the future") {
		t.Errorf("no warning was logged:\n%s", r.log)
	}
	r.clock.advance(time.Minute)
	r.webhook("user.deactivated", r.clock.Now(), "u1", "u1@example.com", "org_one").want(200)
	r.ask(secret, "GET", "/api/teams", "").want(401)
}

// TestTimestampsOfEventsAreRFC3339: a user loses access also when the deactivation
// is dated within a leap second, or written with lower-case letters.
func TestTimestampsOfEventsAreRFC3339(t *testing.T) {
	for _, at := range []string{"2026-03-01t12:00:00z", "2016-12-31T23:59:60Z", "2026-03-01T14:00:00.5+02:00"} {
		for _, typ := range []string{"user.deleted", "user.updated"} {
			want, _ := parseTimestamp(at)
			ev, err := decodeEvent([]byte(`{"type":"` + typ + `","createdAt":"` + at + `","data":{"userId":"u1","orgId":"org_one"}}`))
			if err != nil || want.IsZero() || !ev.CreatedAt.Equal(want) {
				t.Errorf("%s at %s: %+v, %v", typ, at, ev, err)
			}
		}
	}
}

// TestAnEventIsReadAsFarAsItsMembersAre: values that are nested deeper are replaced
// by a number, and everything else is unchanged.
func TestAnEventIsReadAsFarAsItsMembersAre(t *testing.T) {
	deep := func(n int, inner string) string { return strings.Repeat("[", n) + inner + strings.Repeat("]", n) }
	for _, row := range []struct{ body, want string }{
		{`{"a":"[{\"","b":[1,{}]}`, `{"a":"[{\"","b":[1,{}]}`},
		{deep(maxEventDepth, `"["`), deep(maxEventDepth, `"["`)},
		{deep(maxEventDepth+1, `"]"`), deep(maxEventDepth, "0")},
		{deep(maxEventDepth, `[1],"x",{"\"]":[2]}`), deep(maxEventDepth, `0,"x",0`)},
		{strings.Repeat("[", 2*maxEventDepth), strings.Repeat("[", maxEventDepth) + "0"},
		{"]]}", "]]}"},
		{`"\`, `"\`},
	} {
		if got := string(shallow([]byte(row.body))); got != row.want {
			t.Errorf("of %s: %s", row.body, got)
		}
	}
}

// TestMetadataWithoutBottomDoesNotStopARevocation: metadata may be nested as deep
// as the size of a body allows.
func TestMetadataWithoutBottomDoesNotStopARevocation(t *testing.T) {
	for _, depth := range []int{9_998, 10_001, 100_000} {
		body := `{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"metadata":` +
			strings.Repeat(`{"]":[`, depth/2) + `"\\"` + strings.Repeat("]}", depth/2) + `,"userId":"u1","orgId":"org_one"}}`
		ev, err := decodeEvent([]byte(body))
		if err != nil || ev.Data.UserID != "u1" || ev.Data.OrgID != "org_one" {
			t.Errorf("%d levels: %v", depth, err)
		}
	}
}
