package credentials

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// parties are the identity provider and the authorization server of an upstream, by the host of a
// request, with all that each of them received.
type parties struct {
	idp, server func(w http.ResponseWriter, r *http.Request, n int)

	mu    sync.Mutex
	got   map[string]*strings.Builder
	forms map[string][]url.Values
}

func (p *parties) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	p.mu.Lock()
	if p.got == nil {
		p.got, p.forms = map[string]*strings.Builder{"idp": {}, "server": {}}, map[string][]url.Values{}
	}
	fmt.Fprintln(p.got[r.Host], r.URL, r.Header, string(body), form)
	if _, basic, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		text, _ := base64.StdEncoding.DecodeString(basic)
		fmt.Fprintln(p.got[r.Host], string(text))
	}
	p.forms[r.Host] = append(p.forms[r.Host], form)
	n := len(p.forms[r.Host])
	p.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	answer := map[string]func(http.ResponseWriter, *http.Request, int){"idp": p.idp, "server": p.server}[r.Host]
	answer(w, r, n)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// asked returns how many requests each party received.
func (p *parties) asked() [2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return [2]int{len(p.forms["idp"]), len(p.forms["server"])}
}

// answers responds with a body, in which the number of the request can stand.
func answers(status int, body string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, n int) {
		w.WriteHeader(status)
		fmt.Fprint(w, strings.ReplaceAll(body, "#", fmt.Sprint(n)))
	}
}

var (
	grants = answers(200, `{"access_token":"planted-grant-#","token_type":"N_A","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag","expires_in":300}`)
	issues = answers(200, `{"access_token":"token-#","token_type":"Bearer","expires_in":3600}`)
)

const claimsOfAnna = `{"iss":"https://idp","sub":"anna","aud":"gw-at-idp","exp":4102444800}`

// idToken is a token with claims; its signature was verified elsewhere.
func idToken(claims string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".cGxhbnRlZC1zaWduYXR1cmU"
}

func newIDJAG(idp, server *Endpoint) *PerCaller {
	config := upstream.IDJAG{
		IDP: upstream.TokenClient{ClientID: "gw-at-idp"}, Audience: "https://login.up",
		TokenEndpoint: upstream.TokenEndpoint{Scopes: []string{"a", "b"}, Resource: "https://up/mcp"},
	}
	return newPerCaller("up", time.Now, (&idJAG{config, idp, server}).ask)
}

func newIDJAGOf(p *parties) *PerCaller {
	return newIDJAG(endpointAt("https://idp/token", "gw-at-idp", "planted-idp-secret", p), endpointAt("https://server/token", "gw-at-server", "planted-server-secret", p))
}

// The requests have the form of the draft, and neither party receives the account of the other. The
// ID token is sent to the identity provider alone, and the grant to the authorization server alone.
func TestTheRequestsForAGrant(t *testing.T) {
	for _, keys := range []bool{false, true} {
		t.Run(fmt.Sprintf("keys=%v", keys), func(t *testing.T) {
			p := &parties{idp: grants, server: issues}
			idp, server := endpointAt("https://idp/token", "gw-at-idp", "planted-idp-secret", p), endpointAt("https://server/token", "gw-at-server", "planted-server-secret", p)
			if keys {
				idp.Secret, server.Secret = "", ""
				idp.Key, server.Key = newKey(t, "ed25519", "kid-at-idp"), newKey(t, "rsa", "")
			}
			subject := idToken(claimsOfAnna)
			if got := presented(t, newIDJAG(idp, server), with(subject, time.Hour)); got != "Bearer token-1" {
				t.Error(got)
			}
			account := func(id string) map[string]string {
				if !keys {
					return map[string]string{}
				}
				return map[string]string{"client_id": id, "client_assertion_type": typeAssertion, "client_assertion": "*"}
			}
			for host, want := range map[string]map[string]string{
				"idp": {
					"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
					"subject_token": subject, "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
					"audience": "https://login.up", "resource": "https://up/mcp", "scope": "a b",
				},
				"server": {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "planted-grant-1"},
			} {
				for name, value := range account("gw-at-" + host) {
					want[name] = value
				}
				form := p.forms[host][0]
				for name, value := range want {
					if got := form[name]; len(got) != 1 || got[0] != value && value != "*" {
						t.Errorf("%s: %s is %q, want %q", host, name, got, value)
					}
				}
				if len(form) != len(want) {
					t.Errorf("%s: %v", host, form)
				}
			}
			signatures := func(host string) []string {
				assertion := p.forms[host][0].Get("client_assertion")
				return []string{"gw-at-" + host, "planted-" + host + "-secret", "kid-at-" + host, "https://" + host + "/token", assertion[strings.LastIndexByte(assertion, '.')+1:]}
			}
			for host, others := range map[string][]string{
				"idp":    append(signatures("server"), "planted-grant"),
				"server": append(signatures("idp"), subject, "cGxhbnRlZC1zaWduYXR1cmU", "https://login.up", "anna"),
			} {
				for _, other := range others {
					if other != "" && strings.Contains(p.got[host].String(), other) {
						t.Errorf("%s received %q: %s", host, other, p.got[host])
					}
				}
			}
			if !keys && (!strings.Contains(p.got["idp"].String(), "gw-at-idp:planted-idp-secret") || !strings.Contains(p.got["server"].String(), "gw-at-server:planted-server-secret")) {
				t.Errorf("%s\n%s", p.got["idp"], p.got["server"])
			}
		})
	}
}

// A grant that the authorization server rejects is replaced once; no other error causes a second
// request.
func TestARejectedGrantIsReplacedOnce(t *testing.T) {
	first := func(then func(http.ResponseWriter, *http.Request, int)) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, r *http.Request, n int) {
			if n == 1 {
				answers(400, `{"error":"invalid_grant"}`)(w, r, n)
				return
			}
			then(w, r, n)
		}
	}
	invalid := answers(400, `{"error":"invalid_grant","error_description":"planted"}`)
	for _, tt := range []struct {
		name        string
		idp, server func(http.ResponseWriter, *http.Request, int)
		asked       [2]int
		want        string
	}{
		{"once", grants, first(issues), [2]int{2, 2}, ""},
		{"always", grants, invalid, [2]int{2, 2}, "the authorization server of the upstream (id_jag): the token endpoint answered with status 400 and the error invalid_grant"},
		{"another error", grants, answers(401, `{"error":"invalid_client"}`), [2]int{1, 1}, "the authorization server of the upstream (id_jag): the token endpoint answered with status 401 and the error invalid_client"},
		{"the caller is not accepted", invalid, issues, [2]int{1, 0}, "the identity provider (id_jag.idp): the token endpoint answered with status 400 and the error invalid_grant"},
	} {
		p := &parties{idp: tt.idp, server: tt.server}
		_, err := newIDJAGOf(p).Fields(t.Context(), with(idToken(claimsOfAnna), time.Hour))
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, upstream.ErrCredentials) || errors.Is(err, upstream.ErrNoSubject) || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if p.asked() != tt.asked {
			t.Errorf("%s: %v requests, want %v", tt.name, p.asked(), tt.asked)
		}
		if n := len(p.forms["server"]); n == 2 && p.forms["server"][0].Get("assertion") == p.forms["server"][1].Get("assertion") {
			t.Errorf("%s: a grant was used twice", tt.name)
		}
	}
}

// A token is used until the earliest of its expiry and that of the caller's token, after a 401 of
// the upstream another grant is requested, and concurrent calls of a caller share one exchange.
func TestATokenOfAGrantIsKeptForItsCaller(t *testing.T) {
	for _, tt := range []struct {
		expires    string
		own, until time.Duration
	}{
		{`,"expires_in":600`, time.Hour, 10*time.Minute - early},
		{`,"expires_in":"600"`, time.Hour, 10*time.Minute - early},
		{`,"expires_in":36000`, 10 * time.Minute, 10*time.Minute - early},
		{`,"expires_in":1e300`, 48 * time.Hour, maxExpiry - early},
		{``, time.Hour, noExpiry - early},
		{``, 4 * time.Minute, 4*time.Minute - early},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &parties{idp: grants, server: answers(200, `{"access_token":"token-#","token_type":"bearer"`+tt.expires+`}`)}
			x := newIDJAGOf(p)
			anna, bert := with(idToken(claimsOfAnna), tt.own), with(idToken(strings.ReplaceAll(claimsOfAnna, "anna", "bert")), tt.own)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if got := presented(t, x, anna); got != "Bearer token-1" {
						t.Error(got)
					}
				})
			}
			wg.Wait()
			if got := presented(t, x, bert); got != "Bearer token-2" {
				t.Error(got)
			}
			advance(tt.until - time.Millisecond)
			if got := presented(t, x, anna); got != "Bearer token-1" || p.asked() != [2]int{2, 2} {
				t.Errorf("%s: %s after %v requests", tt.expires, got, p.asked())
			}
			advance(time.Millisecond)
			if got := presented(t, x, anna); got != "Bearer token-3" {
				t.Errorf("%s: kept too long: %s", tt.expires, got)
			}
			anna.Token.ExpiresAt = time.Now().Add(time.Hour)
			advance(freshTime)
			if !x.Rejected(t.Context(), anna, []mcp.Field{{Name: "Authorization", Value: "Bearer token-3"}}) || presented(t, x, anna) != "Bearer token-4" {
				t.Errorf("%s: a rejected token was kept", tt.expires)
			}
			if p.asked() != [2]int{4, 4} {
				t.Errorf("%s: %v requests", tt.expires, p.asked())
			}
		})
	}
}

// A caller without an ID token for the client of the gateway causes no request.
func TestWithoutAnIDTokenNothingIsAsked(t *testing.T) {
	p := &parties{idp: grants, server: issues}
	x := newIDJAGOf(p)
	of := func(claims string) *upstream.Caller { return with(idToken(claims), time.Hour) }
	for _, tt := range []struct {
		name string
		c    *upstream.Caller
		want error
	}{
		{"nobody", nil, upstream.ErrNoSubject},
		{"a key", &upstream.Caller{Principal: &auth.Principal{}}, upstream.ErrNoSubject},
		{"an access token for the gateway", of(`{"aud":"https://gateway/mcp"}`), upstream.ErrSubjectAudience},
		{"no audience", of(`{}`), upstream.ErrSubjectAudience},
		{"a part of the audience", of(`{"aud":"gw-at-idp-2"}`), upstream.ErrSubjectAudience},
		{"an opaque token", with("planted", time.Hour), upstream.ErrSubjectAudience},
		{"an expired one", with(idToken(claimsOfAnna), -time.Second), upstream.ErrCredentials},
	} {
		_, err := x.Fields(t.Context(), tt.c)
		if !errors.Is(err, tt.want) || errors.Is(err, upstream.ErrNoSubject) == (tt.want == upstream.ErrCredentials) || errors.Is(err, upstream.ErrSubjectAudience) != (tt.want == upstream.ErrSubjectAudience) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if p.asked() != [2]int{} {
		t.Errorf("%v requests", p.asked())
	}
	if got := presented(t, x, of(`{"aud":["other","gw-at-idp"]}`)); got != "Bearer token-1" {
		t.Errorf("one of several audiences: %s", got)
	}
}

// Every invalid response of either party is an error that names the party, is bounded in size and
// time, and repeats nothing of the response. Connections are real, so that the client's own
// handling of compression and redirects takes part.
func TestHostilePartiesOfAGrant(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a redirect was followed: %v", r.URL) }))
	defer elsewhere.Close()
	reply := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Location", elsewhere.URL+"?planted")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const js = "application/json"
	token := func(rest string) http.HandlerFunc {
		return reply(200, js, `{"access_token":"planted","token_type":"Bearer","issued_token_type":"`+typeIDJAG+`"`+rest+`}`)
	}
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = io.WriteString(zip, `{"access_token":"`)
	chunk := bytes.Repeat([]byte("planted "), 1<<17)
	for range 64 {
		_, _ = zip.Write(chunk)
	}
	zip.Close()
	hostile := []struct {
		name   string
		answer http.HandlerFunc
		want   string
		only   string // the party that the case is for; empty for both
	}{
		{"an OAuth error", reply(400, js, `{"error":"invalid_client","error_description":"planted"}`), "status 400 and the error invalid_client", ""},
		{"200 with an error", reply(200, js, `{"error":"invalid_grant","error_description":"planted"}`), "no token that fits", ""},
		{"a web page", reply(200, "text/html", "<html>planted"), "no JSON", ""},
		{"a web page as JSON", reply(200, js, "<html>planted"), "no JSON", ""},
		{"a redirect", reply(302, js, `{}`), "redirects", ""},
		{"a redirect that keeps the method", reply(307, js, `{}`), "redirects", ""},
		{"huge", reply(200, js, `{"access_token":"`+strings.Repeat("planted", 1<<18)+`"}`), "more than 65536 bytes", ""},
		{"huge headers", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("planted", 1<<17)) }, "cannot be reached", ""},
		{"a gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", js)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, "more than 65536 bytes", ""},
		{"no gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", js)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "planted")
		}, "cannot be reached", ""},
		{"closed in the middle", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", js)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"access_token":"planted`)
		}, "cannot be reached", ""},
		{"closed at once", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached", ""},
		{"expired", token(`,"expires_in":0`), "has expired", ""},
		{"expires in the past", token(`,"expires_in":-5`), "has expired", ""},
		{"expires in an overflow", token(`,"expires_in":1e999`), "has expired", ""},
		{"expires in a word", token(`,"expires_in":"planted"`), "no JSON", ""},
		{"expires in an object", token(`,"expires_in":{}`), "no JSON", ""},
		{"a line end in the token", reply(200, js, `{"access_token":"planted\r\nX: y","token_type":"Bearer","issued_token_type":"`+typeIDJAG+`"}`), "no token that fits", ""},
		{"a long token", reply(200, js, `{"access_token":"`+strings.Repeat("planted", 5000)+`","token_type":"Bearer"}`), "no token that fits", ""},
		{"a list for a token", reply(200, js, `{"access_token":["planted"],"token_type":"Bearer"}`), "no JSON", ""},
		{"no type", reply(200, js, `{"access_token":"planted","token_type":"N_A"}`), "does not name the type", "idp"},
		{"an access token", reply(200, js, `{"access_token":"planted","token_type":"Bearer","issued_token_type":"`+typeAccessToken+`"}`), "another type of token", "idp"},
		{"an ID token", reply(200, js, `{"access_token":"planted","token_type":"N_A","issued_token_type":"`+typeIDToken+`"}`), "another type of token", "idp"},
		{"the caller's own token", func(w http.ResponseWriter, r *http.Request) {
			reply(200, js, fmt.Sprintf(`{"access_token":%q,"token_type":"N_A","issued_token_type":%q}`, r.PostFormValue("subject_token"), typeIDJAG))(w, r)
		}, "the caller's own token", "idp"},
		{"a token bound to a key", reply(200, js, `{"access_token":"planted","token_type":"DPoP"}`), "another type than Bearer", "server"},
		{"no token type", reply(200, js, `{"access_token":"planted"}`), "another type than Bearer", "server"},
		{"the grant", func(w http.ResponseWriter, r *http.Request) {
			reply(200, js, fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer"}`, r.PostFormValue("assertion")))(w, r)
		}, "the grant as an access token", "server"},
	}
	for _, tt := range hostile {
		for party, name := range map[string]string{"idp": "the identity provider (id_jag.idp)", "server": "the authorization server of the upstream (id_jag)"} {
			if tt.only != "" && tt.only != party {
				continue
			}
			t.Run(tt.name+"/"+party, func(t *testing.T) {
				answer := map[string]http.HandlerFunc{"idp": reply(200, js, `{"access_token":"planted-grant","token_type":"N_A","issued_token_type":"`+typeIDJAG+`"}`), "server": token("")}
				answer[party] = tt.answer
				var reached atomic.Int32
				idp := httptest.NewServer(answer["idp"])
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					reached.Add(1)
					answer["server"](w, r)
				}))
				defer idp.Close()
				defer server.Close()
				x := newIDJAG(&Endpoint{URL: idp.URL, ID: "gw-at-idp", Secret: "planted", Client: NewClient(), Now: time.Now},
					&Endpoint{URL: server.URL, ID: "gw", Secret: "planted", Client: NewClient(), Now: time.Now})
				fields, err := x.Fields(t.Context(), with(idToken(claimsOfAnna), time.Hour))
				if !errors.Is(err, upstream.ErrCredentials) || !strings.Contains(fmt.Sprint(err), name) || !strings.Contains(fmt.Sprint(err), tt.want) {
					t.Fatalf("%v, %v, want %s", fields, err, tt.want)
				}
				if strings.Contains(err.Error(), "planted") || len(err.Error()) > 400 {
					t.Errorf("%v", err)
				}
				if n := reached.Load(); party == "idp" && n != 0 {
					t.Errorf("the authorization server received %d requests", n)
				}
			})
		}
	}
}

// Both steps together are bounded in time, also when each party answers just in time.
func TestBothStepsShareOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(then func(http.ResponseWriter, *http.Request, int)) func(http.ResponseWriter, *http.Request, int) {
			return func(w http.ResponseWriter, r *http.Request, n int) {
				select {
				case <-time.After(Timeout * 6 / 10):
					then(w, r, n)
				case <-r.Context().Done():
				}
			}
		}
		began := time.Now()
		_, err := newIDJAGOf(&parties{idp: slow(grants), server: slow(issues)}).Fields(t.Context(), with(idToken(claimsOfAnna), time.Hour))
		if took := time.Since(began); took != Timeout || err == nil || !strings.Contains(err.Error(), "did not answer in 10s") {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// A call with a cached token of id_jag costs what one of token_exchange costs.
func BenchmarkFieldsOfACaller(b *testing.B) {
	for name, x := range map[string]*PerCaller{
		"token_exchange": newExchange(&credentialsServer{answer: exchanged(3600)}),
		"id_jag":         newIDJAGOf(&parties{idp: grants, server: issues}),
	} {
		b.Run(name, func(b *testing.B) {
			anna := with(idToken(claimsOfAnna), time.Hour)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Fields(ctx, anna); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
