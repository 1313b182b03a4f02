package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/session"
)

// tokens are credentials that differ by caller, like those of a token exchange: the
// upstream no longer accepts the first token of each.
type tokens struct {
	renewed  map[string]bool // by caller
	stubborn bool            // it never returns another token
	rejected int
}

var errNoToken = errors.New("no token for this caller")

func (c *tokens) name(who *Caller) string {
	if who == nil {
		return "gateway"
	}
	return who.Principal.Value
}

func (c *tokens) Fields(_ context.Context, who *Caller) ([]mcp.Field, error) {
	name := c.name(who)
	switch {
	case name == "stranger":
		return nil, errNoToken
	case c.renewed[name]:
		return []mcp.Field{{Name: "Authorization", Value: "Bearer new-" + name}}, nil
	}
	return []mcp.Field{{Name: "Authorization", Value: "Bearer old-" + name}}, nil
}

func (c *tokens) Rejected(_ context.Context, who *Caller, fields []mcp.Field) bool {
	c.rejected++
	if !strings.HasPrefix(fields[0].Value, "Bearer old-") || c.stubborn {
		return false
	}
	c.renewed[c.name(who)] = true
	return true
}

// newHTTP is a transport to a server that rejects tokens with the prefix "Bearer
// old" with 401. It records what the server received.
func newHTTP(t *testing.T, credentials Credentials) (*HTTP, *[]*http.Request) {
	t.Helper()
	seen := new([]*http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		*seen = append(*seen, r)
		if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer old") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	cfg := Config{Name: "up", URL: server.URL + "/mcp?key=secret", Headers: map[string]string{"X-Static": "s"}}
	cfg.SetDefaults()
	client, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHTTP(client, credentials)
	t.Cleanup(func() { h.Close() })
	return h, seen
}

func caller(name string) *Caller {
	return &Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: name}, Session: session.NewID(), HasSession: true}
}

// Each kind of request has its method, its session and its position.
func TestRequestsOverHTTP(t *testing.T) {
	h, seen := newHTTP(t, StaticHeaders{})
	request := func() *Request {
		return &Request{
			Session: mcp.Session{ID: "s1", Version: mcp.Revision20250618}, LastEventID: "e1",
			Header: mcp.Header{{Name: "X-Mine", Value: "m"}}, Body: []byte("{}"),
		}
	}
	for _, tt := range []struct {
		method, body, last string
		do                 func(context.Context, *Request) (*Response, error)
	}{{"POST", "{}", "", h.Post}, {"GET", "", "e1", h.Listen}, {"DELETE", "", "", h.End}} {
		resp, err := tt.do(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		r := (*seen)[len(*seen)-1]
		body, _ := io.ReadAll(r.Body)
		if r.Method != tt.method || string(body) != tt.body || r.Header.Get("Last-Event-Id") != tt.last {
			t.Errorf("sent %s %q after %q, want %s %q after %q", r.Method, body, r.Header.Get("Last-Event-Id"), tt.method, tt.body, tt.last)
		}
		for name, want := range map[string]string{"Mcp-Session-Id": "s1", "Mcp-Protocol-Version": mcp.Revision20250618, "X-Mine": "m", "X-Static": "s"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: header %s is %q, want %q", tt.method, name, got, want)
			}
		}
	}
	if a := h.Address(); strings.Contains(a, "secret") || !strings.Contains(a, "/mcp") {
		t.Errorf("address %q", a)
	}
}

// Credentials are those of the caller, replace the request's fields of the same
// names, and are renewed once when the upstream rejects them.
func TestCredentialsOfEachCaller(t *testing.T) {
	c := &tokens{renewed: map[string]bool{}}
	h, seen := newHTTP(t, c)
	for _, tt := range []struct {
		who  *Caller
		want []string // Authorization of each request
	}{
		{caller("alice"), []string{"Bearer old-alice", "Bearer new-alice"}},
		{caller("bob"), []string{"Bearer old-bob", "Bearer new-bob"}},
		{nil, []string{"Bearer old-gateway", "Bearer new-gateway"}},
		{caller("alice"), []string{"Bearer new-alice"}},
	} {
		*seen = nil
		r := Request{Caller: tt.who, Session: mcp.Session{ID: "s1"}, Body: []byte(`{"x":1}`), Header: mcp.Header{{Name: "authorization", Value: "Bearer of the client"}}}
		resp, err := h.Post(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.Status != http.StatusOK || len(*seen) != len(tt.want) {
			t.Fatalf("status %d after %d requests, want 200 after %d", resp.Status, len(*seen), len(tt.want))
		}
		for i, sent := range *seen {
			body, _ := io.ReadAll(sent.Body)
			if got := sent.Header["Authorization"]; len(got) != 1 || got[0] != tt.want[i] || string(body) != `{"x":1}` || len(sent.Header["Mcp-Session-Id"]) != 1 {
				t.Errorf("request %d: %q with %v, want %s", i, body, sent.Header, tt.want[i])
			}
		}
	}
	if c.rejected != 3 {
		t.Errorf("%d rejections, want 3", c.rejected)
	}
}

// A 401 is the response if there are no other credentials, and a request without
// credentials is never sent.
func TestCredentialsThatCannotBeRenewed(t *testing.T) {
	h, seen := newHTTP(t, &tokens{stubborn: true})
	resp, err := h.Post(t.Context(), &Request{Caller: caller("alice")})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Status != http.StatusUnauthorized || len(*seen) != 1 {
		t.Errorf("status %d after %d requests, want 401 after one", resp.Status, len(*seen))
	}
	if _, err := h.Post(t.Context(), &Request{Caller: caller("stranger")}); !errors.Is(err, errNoToken) || len(*seen) != 1 {
		t.Errorf("%v after %d requests, want %v and nothing sent", err, len(*seen), errNoToken)
	}
}
