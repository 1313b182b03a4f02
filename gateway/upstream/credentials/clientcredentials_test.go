package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/upstream"
)

// credentialsServer responds like a token endpoint.
type credentialsServer struct {
	asked  atomic.Int32
	answer func(w http.ResponseWriter, r *http.Request, n int32)
}

// RoundTrip implements http.RoundTripper, so that a test needs no network.
func (e *credentialsServer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Body = new(bytes.Buffer)
	e.answer(w, r, e.asked.Add(1))
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func newCredentials(e *credentialsServer) *ClientCredentials {
	config := upstream.ClientCredentials{TokenEndpoint: upstream.TokenEndpoint{Scopes: []string{"a", "b"}, Resource: "https://up/mcp"}}
	return &ClientCredentials{upstream: "up", config: config, endpoint: endpointAt("https://login.example/token?x=s3cret-query", "the gateway", "s3cret%", e)}
}

func issue(body string) func(http.ResponseWriter, *http.Request, int32) {
	return func(w http.ResponseWriter, _ *http.Request, n int32) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, body, n)
	}
}

// advance moves the clock of the bubble.
func advance(d time.Duration) { <-time.After(d) }

func valueOf(t *testing.T, c *ClientCredentials) string {
	t.Helper()
	fields, err := c.Fields(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return fields[0].Value
}

// The request has the form of RFC 6749 and RFC 8707.
func TestTheRequestForAToken(t *testing.T) {
	e := &credentialsServer{answer: func(w http.ResponseWriter, r *http.Request, n int32) {
		id, secret, _ := r.BasicAuth()
		if id != "the+gateway" || secret != "s3cret%25" || r.Method != "POST" {
			t.Errorf("%s, %q %q", r.Method, id, secret)
		}
		if r.PostFormValue("grant_type") != "client_credentials" || r.PostFormValue("scope") != "a b" || r.PostFormValue("resource") != "https://up/mcp" || r.PostFormValue("client_secret") != "" {
			t.Errorf("%v", r.PostForm)
		}
		issue(`{"access_token":"t%d","token_type":"bearer","expires_in":3600}`)(w, r, n)
	}}
	if got := valueOf(t, newCredentials(e)); got != "Bearer t1" {
		t.Error(got)
	}
}

// A token is used until shortly before it expires, and a short-lived one for half its lifetime.
func TestATokenIsReplacedBeforeItEnds(t *testing.T) {
	for _, tt := range []struct {
		expires string
		until   time.Duration
	}{{`,"expires_in":3600`, 3570 * time.Second}, {`,"expires_in":10`, 5 * time.Second}, {`,"expires_in":"60"`, 30 * time.Second}, {"", 9*time.Minute + 30*time.Second}, {`,"expires_in":1e300`, 24*time.Hour - early}} {
		synctest.Test(t, func(t *testing.T) {
			e := &credentialsServer{answer: issue(`{"access_token":"t%d","token_type":"Bearer"` + tt.expires + `}`)}
			c := newCredentials(e)
			first := valueOf(t, c)
			advance(tt.until - time.Millisecond)
			if got := valueOf(t, c); got != first {
				t.Errorf("%s: replaced too early", tt.expires)
			}
			advance(time.Millisecond)
			if got := valueOf(t, c); got != "Bearer t2" {
				t.Errorf("%s: %s", tt.expires, got)
			}
		})
	}
}

// Concurrent requests for a token cause one request to the endpoint, and a caller that gives up
// does not cancel it for the others.
func TestOneRequestForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := &credentialsServer{answer: func(w http.ResponseWriter, r *http.Request, n int32) {
			<-release
			issue(`{"access_token":"t%d","token_type":"Bearer","expires_in":60}`)(w, r, n)
		}}
		c := newCredentials(e)
		gone, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Fields(gone, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("one that gave up: %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			wg.Go(func() { valueOf(t, c) })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		if n := e.asked.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// A rejected token is dropped once; a token that was just issued is kept.
func TestARejectedTokenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(&credentialsServer{answer: issue(`{"access_token":"t%d","token_type":"Bearer","expires_in":3600}`)})
		fields, _ := c.Fields(t.Context(), nil)
		if c.Rejected(t.Context(), nil, fields) {
			t.Error("a new token was dropped")
		}
		advance(freshTime)
		if !c.Rejected(t.Context(), nil, fields) || valueOf(t, c) != "Bearer t2" {
			t.Error("a rejected token was kept")
		}
		if !c.Rejected(t.Context(), nil, fields) || valueOf(t, c) != "Bearer t2" {
			t.Error("the rejection of an older token dropped the newer one")
		}
	})
}

// Every invalid response of an endpoint is an error of one kind, bounded, without the response's
// text.
func TestHostileTokenEndpoints(t *testing.T) {
	reply := func(status int, media, body string) func(http.ResponseWriter, *http.Request, int32) {
		return func(w http.ResponseWriter, _ *http.Request, _ int32) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Location", "https://evil.example/?s3cret")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	const js = "application/json"
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, int32)
		want   string
	}{
		{"an OAuth error", reply(400, js, `{"error":"invalid_client","error_description":"s3cret"}`), "status 400 and the error invalid_client"},
		{"a hostile error", reply(400, js, `{"error":"s3cret\u001b[31m"}`), "status 400"},
		{"a web page", reply(200, "text/html", "<html>s3cret"), "no JSON"},
		{"a redirect", reply(302, js, `{"access_token":"s3cret","token_type":"Bearer"}`), "redirects"},
		{"huge", reply(200, js, `{"access_token":"`+strings.Repeat("s3cret", 1<<20)+`"}`), "more than 65536 bytes"},
		{"a long token", reply(200, js, `{"access_token":"`+strings.Repeat("s3cret", 6000)+`","token_type":"Bearer"}`), "no token that fits"},
		{"a token with a line end", reply(200, js, `{"access_token":"s3cret\r\nX: y","token_type":"Bearer"}`), "no token that fits"},
		{"no token", reply(200, js, `{"token_type":"Bearer"}`), "no token that fits"},
		{"another type", reply(200, js, `{"access_token":"s3cret","token_type":"DPoP"}`), "another type"},
		{"expired", reply(200, js, `{"access_token":"s3cret","token_type":"Bearer","expires_in":0}`), "has expired"},
		{"an expiry that is none", reply(200, js, `{"access_token":"s3cret","token_type":"Bearer","expires_in":{}}`), "no JSON"},
		{"slow", func(_ http.ResponseWriter, r *http.Request, _ int32) { <-r.Context().Done() }, "did not answer in 10s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &credentialsServer{answer: tt.answer}
				c := newCredentials(e)
				_, err := c.Fields(t.Context(), nil)
				if !errors.Is(err, upstream.ErrCredentials) || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("%v, want %s", err, tt.want)
				}
				if strings.Contains(err.Error(), "s3cret") || len(err.Error()) > 300 {
					t.Errorf("%v", err)
				}
				// The failure is cached briefly, then the endpoint is requested again.
				if _, err := c.Fields(t.Context(), nil); err == nil || e.asked.Load() != 1 {
					t.Errorf("at once: %v after %d requests", err, e.asked.Load())
				}
				advance(failureTime)
				if _, err := c.Fields(t.Context(), nil); err == nil || e.asked.Load() != 2 {
					t.Errorf("later: %v after %d requests", err, e.asked.Load())
				}
			})
		})
	}
}

// Without the section no request is sent.
func TestWithoutCredentials(t *testing.T) {
	none, err := New(upstream.Config{}, Options{Now: time.Now})
	if _, ok := none.(upstream.StaticHeaders); !ok || err != nil {
		t.Error("there are credentials")
	}
}
