package refusal

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
)

func TestARefusalIsTold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		r      *Refusal
		body   string
		header map[string]string
	}{
		{"a plain one", &NoRoute, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no_route","data":{"reason":"no_route","request_id":"r1"}}}`, nil},
		{"later", Rate.After(1500 * time.Millisecond), `"reason":"rate_limited"`, map[string]string{"Retry-After": "2"}},
		{"later, who knows when", &Rate, `"reason":"rate_limited"`, map[string]string{"Retry-After": "1"}},
		{"with a challenge", Unauthorized.WithChallenge("Bearer"), `"unauthorized"`, map[string]string{"Www-Authenticate": "Bearer"}},
		{"by its method", &Method, `"id":null`, map[string]string{"Allow": "GET, POST, DELETE"}},
		{"unrecorded", &Audit, `"executed":true`, nil},
	} {
		m := &mcp.Message{Kind: mcp.Request, ID: []byte("7")}
		body := tt.r.AppendBody(nil, &Reply{ID: tt.r.ID(m, http.MethodPost), RequestID: "r1", Executed: true})
		w := httptest.NewRecorder()
		tt.r.Write(w, body)
		if w.Code != tt.r.Status || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
		want := map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
		for name, v := range tt.header {
			want[name] = v
		}
		got := map[string]string{}
		for name := range w.Header() {
			if name != "Content-Length" {
				got[name] = w.Header().Get(name)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
		if tt.r != &Audit && strings.Contains(string(body), "executed") {
			t.Errorf("%s: %s", tt.name, body)
		}
	}
}

// Clients take a 404 for the end of their session. A request gets 200 with an error that it can be
// answered with; a notification or a client's response, which expects no message, gets 400, and so
// does a GET.
func TestNoRefusalInASessionIs404(t *testing.T) {
	for _, tt := range []struct {
		kind         mcp.Kind
		method       string
		r            *Refusal
		status, code int
	}{
		{mcp.Request, mcp.MethodToolsCall, &NoRoute, 200, mcp.CodeInvalidParams},
		{mcp.Request, "x/unknown", &NoRoute, 200, mcp.CodeMethodNotFound},
		{mcp.Request, mcp.MethodToolsCall, &Generation, 200, mcp.CodeMethodNotFound},
		{mcp.Notification, "notifications/unknown", &NoRoute, 400, mcp.CodeMethodNotFound},
		{mcp.Notification, mcp.MethodToolsCall, &NoRoute, 400, mcp.CodeMethodNotFound},
		{mcp.Notification, "notifications/unknown", &Policy, 403, mcp.CodePolicyDenied},
		{mcp.Response, "", &ViewDenied, 400, mcp.CodeMethodNotFound},
		{mcp.Invalid, "", &NoRoute, 400, mcp.CodeInvalidRequest},
		{mcp.Request, mcp.MethodToolsCall, &Session, 404, mcp.CodeInvalidRequest},
		{mcp.Notification, "notifications/unknown", &Session, 404, mcp.CodeInvalidRequest},
	} {
		before := *tt.r
		if got := tt.r.InSession(&mcp.Message{Kind: tt.kind, Method: tt.method}); got.Status != tt.status || got.Code != tt.code || tt.r.Status != before.Status || tt.r.Code != before.Code {
			t.Errorf("%v %s, %s: %d %d, want %d %d", tt.kind, tt.method, tt.r.Kind, got.Status, got.Code, tt.status, tt.code)
		}
	}
}

func TestTheIDOfARefusal(t *testing.T) {
	for _, tt := range []struct {
		kind   mcp.Kind
		method string
		r      *Refusal
		want   string
	}{
		{mcp.Request, "POST", &NoRoute, "7"},
		{mcp.Notification, "POST", &NoRoute, mcp.EmptyID},
		{mcp.Response, "POST", &NoRoute, mcp.EmptyID},
		{mcp.Request, "GET", &NoRoute, ""},
		{mcp.Request, "POST", &InputRate, ""},
	} {
		if got := tt.r.ID(&mcp.Message{Kind: tt.kind, ID: []byte("7")}, tt.method); string(got) != tt.want {
			t.Errorf("%v, %s, %s: %q, want %q", tt.kind, tt.method, tt.r.Kind, got, tt.want)
		}
	}
}

// A refusal caused by the shutdown of the process is reported as shutdown; a refusal
// with a cause of its own is unchanged.
func TestARefusalAtAStop(t *testing.T) {
	for _, tt := range []struct {
		r    *Refusal
		want string
	}{
		{&Unreachable, "shutdown"}, {&Timeout, "shutdown"}, {&SlowBody, "shutdown"}, {&RateStore, "shutdown"}, {&Unreadable, "shutdown"},
		{&Audit, "audit_unavailable"}, {&NoRoute, "no_route"}, {&Session, "session_not_found"}, {&Rate, ""},
	} {
		if got := tt.r.AtShutdown(); got.Kind != tt.want {
			t.Errorf("%s: %s, want %s", tt.r.Kind, got.Kind, tt.want)
		}
	}
}

func TestALineSaysWhatWasDecidedBefore(t *testing.T) {
	for _, tt := range []struct {
		name         string
		before       audit.Record
		r            *Refusal
		action, rule string
	}{
		{"nothing", audit.Record{}, &NoRoute, audit.ActionDeny, ""},
		{"a rule that redacted", audit.Record{Action: audit.ActionRedact, RuleID: "r"}, &Unreachable, audit.ActionRedact, "r"},
		{"a rule that refuses", audit.Record{Action: audit.ActionAllow, RuleID: "r"}, Rate.WithRule("slow"), audit.ActionRateLimitBlocked, "slow"},
	} {
		rec := tt.before
		if tt.r.Note(&rec); rec.Action != tt.action || rec.RuleID != tt.rule || rec.ErrorKind != tt.r.Kind {
			t.Errorf("%s: %s by %q, %s", tt.name, rec.Action, rec.RuleID, rec.ErrorKind)
		}
	}
}
