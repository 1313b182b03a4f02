package policycmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/gateway/audit"
	"svc/gateway/config"
	"svc/gateway/refusal"
	"svc/store/api"
)

// TestWhyHasAnAnswerForEveryErrorKind: for every error_kind of the gateway, svc why
// prints the meaning and what to do, from an audit line and from a trace.
func TestWhyHasAnAnswerForEveryErrorKind(t *testing.T) {
	asked := 0
	decisions := map[bool]string{false: "failed, not blocked", true: "refused by the gateway"}
	for _, r := range refusal.All() {
		if r.Kind == "" {
			continue
		}
		asked++
		line := audit.Record{Kind: audit.KindRequest, RequestID: "r", Action: r.Action, ErrorKind: r.Kind, Status: r.Status}
		trace := api.Trace{TraceItem: api.TraceItem{ID: "r", Status: "error", ErrorKind: r.Kind, Reason: r.Reason}}
		for from, q := range map[string]*decidedRequest{"line": ofLine(&line), "trace": ofTrace(&trace)} {
			y := explain(q)
			words, ok := refusal.WordsOf(r.Kind)
			if !ok || y.Cause != words.Cause || y.Do != words.Do || y.Cause == "" || y.Do == "" || y.Decision != decisions[r.Status == 401 || r.Status == 403] {
				t.Errorf("%s of %s: %q, %q, %q", from, r.Kind, y.Decision, y.Cause, y.Do)
			}
			var b bytes.Buffer
			if err := writeWhy(&b, y); err != nil || !strings.Contains(b.String(), "error kind:   "+r.Kind+"\n") {
				t.Errorf("%s: %v, %s", r.Kind, err, b.String())
			}
		}
	}
	if asked < 80 {
		t.Errorf("only %d kinds", asked)
	}
}

func TestWhyWithoutAnErrorKind(t *testing.T) {
	for _, row := range []struct {
		name            string
		rec             audit.Record
		decision, cause string
	}{
		{"allowed", audit.Record{Action: "allow", Status: 200}, "allowed", "was allowed"},
		{"allowed by a rule", audit.Record{Action: "allow", RuleID: "r", Status: 200}, `allowed by rule "r"`, "was allowed"},
		{"denied by a rule", audit.Record{Action: "deny", RuleID: "r", Status: 403}, `blocked by rule "r"`, "The rule denies"},
		{"denied by default", audit.Record{Action: "deny", RuleID: "default_deny", Status: 403}, "blocked by default_action", "No rule matches"},
		{"over a limit", audit.Record{Action: "rate_limit_blocked", RuleID: "r", Status: 429}, `blocked by rule "r"`, "over the limit"},
		{"a policy", audit.Record{Action: "deny", Status: 403, PoliciesFired: []audit.PolicyFired{{ID: "pol_1", Name: "pii", Action: "block"}}}, `blocked by policy "pii"`, "A policy of the control plane"},
		{"a guardrail's rejection", audit.Record{Action: "deny", RuleID: "r", Status: 403, GuardrailName: "dlp", GuardrailVerdict: "reject"}, `blocked by rule "r"`, `The guardrail "dlp", which the rule asks, rejected`},
		{"a host that is not allowed", audit.Record{Action: "deny", Status: 403, ErrorKind: "origin_not_allowed"}, "refused by the gateway", "Host is not allowed"},
		{"the tool server's status", audit.Record{Action: "allow", Status: 404}, "failed, not blocked", "answered with the status 404"},
		{"the tool's error", audit.Record{Action: "allow", RuleID: "r", Status: 200, IsError: true}, `failed, not blocked; rule "r" decided`, "answered with an error"},
		{"a call that waits", audit.Record{Action: "deny", RuleID: "r", Status: 403, ErrorKind: "approval_required", Approval: "required", ApprovalID: "apr_1"}, `not approved; rule "r" asks for approval`, "A person must approve the call"},
		{"a call that passed", audit.Record{Action: "allow", RuleID: "r", Status: 200, Approval: "granted", ApprovalID: "apr_1", ApprovedBy: "usr_1"}, `allowed by rule "r"`, "was allowed"},
		{"a kind of a later version", audit.Record{Action: "deny", ErrorKind: "brand_new", Status: 400}, "failed, not blocked", `"brand_new" is not known`},
	} {
		y := explain(ofLine(&row.rec))
		if y.Decision != row.decision || !strings.Contains(y.Cause, row.cause) || y.Do == "" {
			t.Errorf("%s: %q, %q, %q", row.name, y.Decision, y.Cause, y.Do)
		}
		var b bytes.Buffer
		if err := writeWhy(&b, y); err != nil || strings.Contains(b.String(), "guardrail:    dlp: reject\n") != (row.rec.GuardrailName != "") ||
			strings.Contains(b.String(), "approval:     granted apr_1, granted by usr_1\n") != (row.rec.ApprovedBy != "") {
			t.Errorf("%s: %v, %s", row.name, err, b.String())
		}
	}
}

// TestWhyNamesRulesThatCameClose: the output has the rule with its line and conditions,
// reports conditions on arguments or claims as undecided, and shows no rules for other
// tools.
func TestWhyNamesRulesThatCameClose(t *testing.T) {
	const text = `upstreams: [{name: a, url: "http://127.0.0.1:1/mcp"}]
policy:
  rules:
    - id: other
      action: deny
      when: {tool_name: read}
    - id: small
      action: allow
      when: {tool_name: pay, arguments: {/amount: {max: 100}}}
    - id: staff
      action: allow
      when: {tool_prefix: pa, claims: {groups: [staff]}}
    - id: no-pay
      action: deny
      when: {tool_glob: "p*"}
    - id: all
      action: allow
      when: {tool_name: "*"}
`
	doc := config.ParseDocument("svc.yaml", []byte(text), config.Options{Getenv: func(string) (string, bool) { return "", false }})
	file := doc.Draft()
	y := explain(&decidedRequest{Tool: "pay", Rule: "no-pay", Outcome: "blocked", Reason: "policy_denied"})
	var err error
	if y.Rules, err = rulesOf(doc, file, "svc.yaml", y.decidedRequest); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	y.Rules.write(&b)
	want := `
rules of svc.yaml:
  svc.yaml:13: deny "no-pay" (tool_glob: "p*"): decided
  svc.yaml:7: allow "small" (tool_name: "pay", arguments): undecided: depends on the arguments
  svc.yaml:10: allow "staff" (tool_prefix: "pa", claims): undecided: depends on the identity of the caller (claims)
  svc.yaml:16: allow "all" (tool_name: "*"): matches, and comes after the rule that decided
`
	if b.String() != want {
		t.Errorf("got %s\nwant %s", b.String(), want)
	}
	key, err := rulesOf(doc, file, "svc.yaml", &decidedRequest{Tool: "pay", Method: "tools/call", Kind: "key", Rule: "no-pay"})
	if err != nil || len(key.Close) != 2 || key.Close[0].Rule != "small" || key.Close[1].Rule != "all" {
		t.Errorf("a caller with a key meets no claims: %+v, %v", key, err)
	}
	byPolicy, err := rulesOf(doc, file, "svc.yaml", &decidedRequest{Tool: "read_all", Outcome: "blocked", Policies: []api.PolicyFired{{ID: "pol_1", Action: "block"}}})
	if err != nil || !strings.Contains(byPolicy.Note, "a policy of the control plane did") || len(byPolicy.Close) != 1 || byPolicy.Close[0].Why != "matches; the policy was asked after the rules" {
		t.Errorf("blocked by a policy: %+v, %v", byPolicy, err)
	}
	gone, err := rulesOf(doc, file, "svc.yaml", &decidedRequest{Tool: "pay", Rule: "was-here"})
	if err != nil || !strings.Contains(gone.Note, `no rule "was-here"`) || gone.Decided != nil {
		t.Errorf("%+v, %v", gone, err)
	}
}

// Rules that look at labels are judged with those that the caller had; the URI is not known.
func TestWhyNamesRulesWithLabels(t *testing.T) {
	const text = `upstreams: [{name: a, url: "http://127.0.0.1:1/mcp"}]
data_flow: {labels: [{name: private, tool_name: read}, {name: untrusted, tool_name: web}]}
policy:
  rules:
    - id: both
      action: deny
      when: {tool_name: pay, labels_all: [private, untrusted]}
    - id: one
      action: deny
      when: {tool_name: pay, labels_any: [private]}
    - id: keys
      action: deny
      when: {uri_prefix: "file:///keys/"}
`
	doc := config.ParseDocument("svc.yaml", []byte(text), config.Options{Getenv: func(string) (string, bool) { return "", false }})
	for _, c := range []struct {
		method, tool string
		want         string
	}{
		{"tools/call", "pay", `one (tool_name: "pay", labels_any: private): matches now: the file has changed since the request` + "\n"},
		{"resources/read", "", `keys (uri_prefix: "file:///keys/"): undecided: depends on the URI` + "\n"},
	} {
		got, err := rulesOf(doc, doc.Draft(), "svc.yaml", &decidedRequest{Method: c.method, Tool: c.tool, Kind: "key", Labels: []string{"private"}})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, r := range got.Close {
			text += fmt.Sprintf("%s (%s): %s\n", r.Rule, r.Matched, r.Why)
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.method, text, c.want)
		}
	}
}

// A stream that a client opened to listen is explained as one, whether its end has been written or
// not: a window that was closed is no failure, and no tool may have run.
func TestWhyOfAStreamThatListens(t *testing.T) {
	const line = `{"seq":%d,"ts":"2026-11-20T12:00:00Z","kind":%q,"request_id":"r1","action":"allow","error_kind":%q,"status":200,"duration_ms":5,"spans":[{"stage":"listening","duration_ms":0}]}` + "\n"
	for _, row := range []struct {
		kind                 audit.Kind
		error                string
		decision, cause, not string
	}{
		{audit.KindOpen, "", "allowed", "still open", "was allowed and answered"},
		{audit.KindRequest, "", "allowed", "The tool server ended it", "was allowed and answered"},
		{audit.KindRequest, "client_closed", "allowed", "The client closed it", "The tool may have run"},
		{audit.KindRequest, "stream_replaced", "allowed", "a second time", "failed"},
		{audit.KindRequest, "shutdown", "allowed", "The gateway stopped", "failed"},
		{audit.KindRequest, "key_revoked", "failed, not blocked", "", "to listen"},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		file := fmt.Sprintf(line, 1, audit.KindOpen, "")
		if row.kind == audit.KindRequest {
			file += fmt.Sprintf(line, 2, row.kind, row.error)
		}
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := findLine(t.Context(), path, "r1")
		if err != nil || q == nil {
			t.Fatal(q, err)
		}
		if y := explain(q); y.Decision != row.decision || !strings.Contains(y.Cause, row.cause) || strings.Contains(y.Decision+y.Cause, row.not) || y.Do == "" {
			t.Errorf("%s %s: %q, %q, %q", row.kind, row.error, y.Decision, y.Cause, y.Do)
		}
		if row.kind == audit.KindRequest { // the trace of the line
			trace := api.Trace{TraceItem: api.TraceItem{Status: "success", DurationMs: 5, ErrorKind: row.error}, Spans: []api.Span{{Stage: "listening", DurationMs: 60_000}}}
			if row.decision != "allowed" {
				trace.Status = "error"
			}
			if y := explain(ofTrace(&trace)); y.Decision != row.decision || !strings.Contains(y.Cause, row.cause) || strings.Contains(y.Decision+y.Cause, row.not) || y.DurationMs != 60_005 {
				t.Errorf("trace, %s: %q, %q, %v ms", row.error, y.Decision, y.Cause, y.DurationMs)
			}
		}
	}
}
