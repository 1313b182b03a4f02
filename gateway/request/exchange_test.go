package request_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/gateway/audit"
	"svc/gateway/refusal"
	"svc/gateway/request"
	"svc/gateway/request/requesttest"
	"svc/gateway/request/verdict"
	"svc/gateway/telemetry"
	"svc/gateway/upstream"
)

const exchangeRules = `
policy:
  default_action: deny
  rules:
    - {id: safe, action: allow, when: {tool_name: safe}}
    - {id: hide, action: redact, when: {tool_name: hidden}, redact: [{regex: secret, replacement: '***'}]}
routes:
  - {match: {tool_name: safe}, upstream: tools}
`

// unreachable is an upstream that no step of a request may call.
func unreachable(t *testing.T) requesttest.Upstream {
	return func(method string, _ *upstream.Request) (*upstream.Response, error) {
		t.Errorf("the upstream was called: %s", method)
		return requesttest.Respond(http.StatusInternalServerError, "", ""), nil
	}
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

func call(tool, text string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"` + text + `"}}}`
}

// Each step runs separately, and records its result or returns the refusal that ends the request.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		name, body string
		refused    *refusal.Refusal // by read or route
		action     string
		rule       string
		sent       string // a part of the judged message
		upstream   string
	}{
		{name: "allowed", body: call("safe", "a"), action: audit.ActionAllow, rule: "safe", sent: `"text":"a"`, upstream: "tools"},
		{name: "redacted, and no route", body: call("hidden", "my secret"), action: audit.ActionRedact, rule: "hide", sent: `"text":"my ***"`, refused: &refusal.NoRoute},
		{name: "denied by default", body: call("other", "a"), action: audit.ActionDeny, rule: "default_deny", sent: `"name":"other"`, refused: &refusal.Policy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := requesttest.New(t, exchangeRules, unreachable(t))
			ex := request.Begin(s.Services, httptest.NewRecorder(), post(c.body), nil)
			defer ex.Release()
			var got *refusal.Refusal
			for _, step := range []func() *refusal.Refusal{ex.Admit, ex.Authenticate, ex.Read, ex.ResolveDialect, ex.Judge, ex.Route} {
				if got = step(); got != nil {
					break
				}
			}
			if (got == nil) != (c.refused == nil) || got != nil && got.Kind != c.refused.Kind {
				t.Errorf("refused: %+v, want %+v", got, c.refused)
			}
			if ex.Line().Action != c.action || ex.Line().RuleID != c.rule {
				t.Errorf("action %q of rule %q, want %q of %q", ex.Line().Action, ex.Line().RuleID, c.action, c.rule)
			}
			if !strings.Contains(string(ex.Message.Body), c.sent) {
				t.Errorf("the message %s has no %s", ex.Message.Body, c.sent)
			}
			if c.upstream != "" && (ex.Routed() == nil || ex.Routed().Name != c.upstream) {
				t.Errorf("upstream %+v, want %s", ex.Routed(), c.upstream)
			}
		})
	}
}

// A refusal writes one response and one audit line, and the response is not written twice.
func TestRefuse(t *testing.T) {
	s := requesttest.New(t, exchangeRules, unreachable(t))
	w := httptest.NewRecorder()
	ex := request.Begin(s.Services, w, post(call("other", "a")), nil)
	if refused := ex.Authenticate(); refused != nil {
		t.Fatal(refused)
	}
	if refused := ex.Read(); refused != nil {
		t.Fatal(refused)
	}
	ex.Refuse(&refusal.NoRoute)
	ex.Observe()
	ex.Release()
	if w.Code != refusal.NoRoute.Status || !strings.Contains(w.Body.String(), `"id":7`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	lines := s.Lines()
	if len(lines) != 1 || lines[0]["error_kind"] != refusal.NoRoute.Kind || lines[0]["tool"] != "other" || lines[0]["status"] != float64(w.Code) {
		t.Errorf("lines %v", lines)
	}
}

// The response of WriteOverdue is the last one of the request.
func TestAnswerInThePlaceOfAWrite(t *testing.T) {
	s := requesttest.New(t, exchangeRules, unreachable(t))
	w := httptest.NewRecorder()
	ex := request.Begin(s.Services, w, post(call("safe", "a")), nil)
	defer ex.Release()
	if refused := ex.Read(); refused != nil {
		t.Fatal(refused)
	}
	ex.WriteOverdue()
	before := w.Body.String()
	ex.Refuse(&refusal.Panic)
	if w.Code != refusal.Audit.Status || w.Body.String() != before {
		t.Errorf("%d %s, after %s", w.Code, w.Body, before)
	}
}

// With metrics a request is counted once, with its outcome.
func TestARequestIsCounted(t *testing.T) {
	s := requesttest.New(t, exchangeRules, unreachable(t))
	s.Metrics = telemetry.NewMetrics("test", func() telemetry.State { return telemetry.State{} })
	ex := request.Begin(s.Services, httptest.NewRecorder(), post(call("other", "a")), nil)
	ex.Refuse(&refusal.NoRoute)
	ex.Observe()
	ex.Release()
	w := httptest.NewRecorder()
	s.Metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := `status="404",upstream=""} 1`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("no %s in\n%s", want, w.Body)
	}
}

// Only the buffers of an exchange are reused.
func TestReleaseForgetsTheRequest(t *testing.T) {
	s := requesttest.New(t, exchangeRules, unreachable(t))
	var released int
	s.Released = func(b *request.Buffers) {
		released++
		if len(b.Body.Bytes) == 0 {
			t.Error("the buffers are those of another request")
		}
	}
	ex := request.Begin(s.Services, httptest.NewRecorder(), post(call("safe", "a")), nil)
	if refused := ex.Read(); refused != nil {
		t.Fatal(refused)
	}
	ex.Release()
	if released != 1 || len(ex.Message.Body) > 0 || ex.HTTP != nil || ex.Line().RequestID != "" {
		t.Errorf("released %d times; still known: %q %v %q", released, ex.Message.Body, ex.HTTP, ex.Line().RequestID)
	}
}

// With telemetry off a request allocates nothing for it, draws no trace id and records nothing.
func TestTelemetryOffCostsNothing(t *testing.T) {
	s := requesttest.New(t, exchangeRules, unreachable(t))
	ex := request.Begin(s.Services, httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", nil), nil)
	defer ex.Release()
	if n := testing.AllocsPerRun(100, func() {
		ex.Observe()
		ex.PassTrace(nil)
		_ = ex.TraceID()
		(&verdict.Result{}).Count(ex.Services.Metrics)
	}); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}
