package credentials

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

func newExchange(e *credentialsServer) *PerCaller {
	config := upstream.TokenExchange{TokenEndpoint: upstream.TokenEndpoint{Scopes: []string{"a", "b"}, Resource: "https://up/mcp"}, Audience: "up"}
	return newPerCaller("up", time.Now, (&exchange{config, endpointAt("https://login.example/token", "gw", "s3cret", e)}).ask)
}

// endpointAt is a token endpoint that a test answers for.
func endpointAt(url, id, secret string, e http.RoundTripper) *Endpoint {
	client := NewClient()
	client.Transport = e
	return &Endpoint{URL: url, ID: id, Secret: secret, Client: client, Now: time.Now}
}

// with is a caller with a verified token.
func with(subject string, valid time.Duration) *upstream.Caller {
	return &upstream.Caller{
		Principal: &auth.Principal{}, Token: &auth.Token{ExpiresAt: time.Now().Add(valid)},
		Header: http.Header{"Authorization": {"Bearer " + subject}},
	}
}

// exchanged responds with a token that contains the caller's token and the number of the request.
func exchanged(lifetime int) func(http.ResponseWriter, *http.Request, int32) {
	return func(w http.ResponseWriter, r *http.Request, n int32) {
		issue(fmt.Sprintf(`{"access_token":"for-%s-%%d","token_type":"Bearer","issued_token_type":%q,"expires_in":%d}`, r.PostFormValue("subject_token"), typeAccessToken, lifetime))(w, r, n)
	}
}

func presented(t *testing.T, x *PerCaller, c *upstream.Caller) string {
	t.Helper()
	fields, err := x.Fields(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return fields[0].Value
}

// The request has the form of RFC 8693, and the caller's own token is sent only to the token
// endpoint.
func TestTheRequestForAnExchange(t *testing.T) {
	x := newExchange(&credentialsServer{answer: func(w http.ResponseWriter, r *http.Request, n int32) {
		want := map[string]string{
			"grant_type": grantExchange, "subject_token": "anna", "subject_token_type": typeAccessToken, "requested_token_type": typeAccessToken,
			"scope": "a b", "resource": "https://up/mcp", "audience": "up",
		}
		for name, value := range want {
			if got := r.PostFormValue(name); got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		if id, secret, _ := r.BasicAuth(); id != "gw" || secret != "s3cret" || len(r.PostForm) != len(want) {
			t.Errorf("%s %s %v", id, secret, r.PostForm)
		}
		exchanged(3600)(w, r, n)
	}})
	if got := presented(t, x, with("anna", time.Hour)); got != "Bearer for-anna-1" {
		t.Error(got)
	}
}

// Each caller's token has an exchanged token of its own, which is used until the earlier of both
// expires.
func TestAnExchangedTokenIsKeptForItsCaller(t *testing.T) {
	for _, tt := range []struct {
		own, issued, until time.Duration
	}{{time.Hour, 10 * time.Minute, 10*time.Minute - early}, {10 * time.Minute, time.Hour, 10*time.Minute - early}} {
		synctest.Test(t, func(t *testing.T) {
			x := newExchange(&credentialsServer{answer: exchanged(int(tt.issued.Seconds()))})
			anna, bert := with("anna", tt.own), with("bert", tt.own)
			if a, b := presented(t, x, anna), presented(t, x, bert); a != "Bearer for-anna-1" || b != "Bearer for-bert-2" {
				t.Errorf("%s, %s", a, b)
			}
			advance(tt.until - time.Millisecond)
			if got := presented(t, x, anna); got != "Bearer for-anna-1" {
				t.Errorf("replaced too early: %s", got)
			}
			advance(time.Millisecond)
			if got := presented(t, x, anna); got != "Bearer for-anna-3" {
				t.Errorf("kept too long: %s", got)
			}
		})
	}
}

// A caller without a token, or with an expired one, causes no request.
func TestWithoutACallersTokenNothingIsAsked(t *testing.T) {
	e := &credentialsServer{answer: exchanged(60)}
	x := newExchange(e)
	unverified := with("anna", time.Hour)
	unverified.Token = nil
	for name, c := range map[string]*upstream.Caller{"nobody": nil, "a key": {Principal: &auth.Principal{}}, "a token that nobody verified": unverified} {
		if _, err := x.Fields(t.Context(), c); !errors.Is(err, upstream.ErrNoSubject) {
			t.Errorf("%s: %v", name, err)
		}
		if x.Rejected(t.Context(), c, nil) {
			t.Errorf("%s: another token is promised", name)
		}
	}
	if _, err := x.Fields(t.Context(), with("anna", -time.Second)); !errors.Is(err, upstream.ErrCredentials) || errors.Is(err, upstream.ErrNoSubject) {
		t.Errorf("an expired token: %v", err)
	}
	if n := e.asked.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A failure or a rejection for one caller's token does not affect other callers.
func TestCallersDoNotShareFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange(&credentialsServer{answer: func(w http.ResponseWriter, r *http.Request, n int32) {
			if r.PostFormValue("subject_token") == "bad" {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error":"invalid_grant"}`)
				return
			}
			exchanged(3600)(w, r, n)
		}})
		if _, err := x.Fields(t.Context(), with("bad", time.Hour)); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
			t.Errorf("%v", err)
		}
		anna, bert := with("anna", time.Hour), with("bert", time.Hour)
		a, b := presented(t, x, anna), presented(t, x, bert)
		advance(freshTime)
		if !x.Rejected(t.Context(), anna, []mcp.Field{{Name: "Authorization", Value: a}}) || presented(t, x, anna) == a {
			t.Error("a rejected token was kept")
		}
		if presented(t, x, bert) != b {
			t.Error("the token of another caller was replaced")
		}
	})
}

// A response with a token that the endpoint must not issue is refused, and no part of it is
// repeated.
func TestExchangesThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"no type", `"access_token":"s3cret","token_type":"Bearer"`, "does not name the type"},
		{"a refresh token", `"access_token":"s3cret","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:refresh_token"`, "another type of token"},
		{"not to be presented", `"access_token":"s3cret","token_type":"N_A","issued_token_type":"` + typeJWT + `"`, "another type than Bearer"},
		{"the caller's own", `"access_token":"s3cret-own","token_type":"Bearer","issued_token_type":"` + typeJWT + `"`, "the caller's own token"},
		{"expired at once", `"access_token":"s3cret","token_type":"Bearer","expires_in":0,"issued_token_type":"` + typeJWT + `"`, "has expired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newExchange(&credentialsServer{answer: func(w http.ResponseWriter, _ *http.Request, _ int32) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, "{"+tt.answer+"}")
			}})
			_, err := x.Fields(t.Context(), with("s3cret-own", time.Hour))
			if !errors.Is(err, upstream.ErrCredentials) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// However many tokens callers present, the memory for them is bounded.
func TestExchangedTokensAreBounded(t *testing.T) {
	x := newExchange(&credentialsServer{answer: exchanged(3600)})
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for i := range maxCallers / 4 {
				if _, err := x.Fields(t.Context(), with(fmt.Sprintf("t%d-%d", part, i), time.Hour)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(x.kept) != maxCallers || x.order.Len() != maxCallers {
		t.Errorf("%d and %d are kept", len(x.kept), x.order.Len())
	}
}
