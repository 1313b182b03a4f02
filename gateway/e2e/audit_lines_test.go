package e2e

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"svc/gateway"
	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/mcp"
)

// sharedFields are the fields of a record that all lines of a request have in common, whatever
// their kind; ownFields describe a single line. A new field belongs in one of the lists.
var (
	sharedFields = []string{
		"RequestID", "TraceID", "Upstream", "Principal", "PrincipalKind", "KeyID", "KeyN", "OAuthClientName",
		"ClientName", "ClientVersion", "ClientIP", "Agent", "Environment", "Session", "Dialect",
	}
	ownFields = []string{
		"Seq", "Time", "Kind", "Action", "RuleID", "ErrorKind", "RPC", "Method", "Tool", "UpstreamTool", "URI", "Via", "View", "ToolChanged", "SkillChanged", "UpstreamDialect", "Direction", "ResultType",
		"IsError", "Status", "Duration", "BytesIn", "BytesOut", "Frames", "GuardrailName", "GuardrailVerdict",
		"GuardrailLatency", "StripApplied", "Stripped", "ReplacedSurrogates", "TaskHandle", "SubscriptionID", "Spans",
		"InjectionScore", "PIIDetected", "PoliciesFired", "Observed", "LeftOut", "QualityScores", "Checkpoint", "Refused", "Tokens", "Restored", "TokensRefused", "Approval", "ApprovalID", "ApprovedBy", "Labels", "Sets",
	}
)

// records decodes the lines of the audit file, without checkpoints.
func (r *rig) records() []audit.Record {
	r.t.Helper()
	in := audit.NewReader(r.auditPath(), audit.Position{})
	defer in.Close()
	var recs []audit.Record
	for {
		line, err := in.Next()
		if err == io.EOF {
			return recs
		}
		if err != nil {
			r.t.Fatal(err)
		}
		var rec audit.Record
		if err := audit.Decode(line.Bytes, &rec); err != nil {
			r.t.Fatal(err)
		}
		if rec.Kind != audit.KindCheckpoint {
			recs = append(recs, rec)
		}
	}
}

// The opening line, the frame lines and the request line of a stream name the same caller,
// request and gateway.
func TestLinesOfAllKindsHaveTheSameIdentity(t *testing.T) {
	for i := range reflect.TypeFor[audit.Record]().NumField() {
		name := reflect.TypeFor[audit.Record]().Field(i).Name
		if slices.Contains(sharedFields, name) == slices.Contains(ownFields, name) {
			t.Errorf("field %s of audit.Record must be in exactly one of sharedFields and ownFields", name)
		}
	}
	var id string
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": id, "client_name": "My Agent"})
	}))
	t.Cleanup(host.Close)
	id = host.URL + "/client"
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		if strings.Contains(body, `"initialize"`) {
			w.Header().Set("Mcp-Session-Id", "up-1")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"u","version":"1"}}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`+"\n\n"+
			`data: {"jsonrpc":"2.0","id":2,"result":{"content":[]}}`+"\n\n")
	})
	o := newOAuthRig(t, up.URL, "    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}", "",
		"    - {id: progress, action: allow, when: {direction: server_to_client, method: notifications/progress}}\n"+allowAll+"\n"+
			"control_plane: {url: 'http://127.0.0.1:1', ingest_key: svc_ingest_x, agent: planner, environment: staging, traces: {enabled: false}}", roots)
	rotated, err := auth.NewKey("ci.3")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := auth.Hash(rotated, cheap)
	if err != nil {
		t.Fatal(err)
	}
	o.edit("    - id: ci\n      hash: ", "    - id: ci\n      hashes:\n        - {n: 3, hash: '"+hash+"'}\n        - hash: ")
	if err := o.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	fronted := o.fronted() + gateway.Path
	filled := map[string]bool{}
	for _, tt := range []struct{ name, url, credential string }{
		{"key", o.url, o.apiKey},
		{"key with a number", o.url, rotated},
		{"token", o.url, o.token(map[string]any{"client_id": id})},
		{"key as deployed", fronted, o.apiKey},
		{"token as deployed", fronted, o.token(map[string]any{"client_id": id})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bearer := []string{"Authorization", "Bearer " + tt.credential}
			session := o.do(http.MethodPost, tt.url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, bearer...).header.Get("Mcp-Session-Id")
			before := len(o.records())
			got := o.do(http.MethodPost, tt.url, call("2", "safe"), append(bearer, "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18",
				"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")...)
			if got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			recs := o.records()[before:]
			var kinds []audit.Kind
			for _, rec := range recs {
				kinds = append(kinds, rec.Kind)
			}
			if !slices.Equal(kinds, []audit.Kind{audit.KindOpen, audit.KindFrame, audit.KindRequest}) {
				t.Fatalf("lines %v", kinds)
			}
			for _, name := range sharedFields {
				want := reflect.ValueOf(recs[2]).FieldByName(name)
				filled[name] = filled[name] || !want.IsZero()
				for _, rec := range recs[:2] {
					if got := reflect.ValueOf(rec).FieldByName(name); !got.Equal(want) {
						t.Errorf("%s line: %s is %q, the request line has %q", rec.Kind, name, got, want)
					}
				}
			}
		})
	}
	for _, name := range sharedFields {
		if !filled[name] {
			t.Errorf("no line has %s", name)
		}
	}
}

// Every line has the dialect, also the lines of requests that declare no revision and of requests
// that were refused before their body was read.
func TestEveryLineHasTheDialect(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, open(up.URL)+"input_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 8}\n")
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`
	modern := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	const version = "MCP-Protocol-Version"
	for i, tt := range []struct {
		name, method, body string
		headers            []string
		status             int
		want               string
	}{
		{"initialize declares none for itself", "POST", initialize, nil, 200, "legacy"},
		{"no key", "POST", call("1", "safe"), []string{"Authorization", ""}, 401, "legacy"},
		{"no key, a version", "POST", call("1", "safe"), []string{"Authorization", "", version, "2025-06-18"}, 401, "2025-06-18"},
		{"no key, a version in the body", "POST", modern, []string{"Authorization", "", version, "2025-06-18"}, 401, "2026-07-28"},
		{"a foreign origin", "POST", call("1", "safe"), []string{"Origin", "https://elsewhere.example", version, "2025-11-25"}, 403, "2025-11-25"},
		{"not JSON", "POST", "{", []string{version, "2025-11-25"}, 400, "2025-11-25"},
		{"two versions", "POST", call("1", "safe"), []string{version, "2025-06-18", "+" + version, "2025-11-25"}, 400, "legacy"},
		{"another HTTP method", "PUT", "", []string{version, "2025-06-18"}, 405, "2025-06-18"},
		{"over the input limit", "POST", call("1", "safe"), []string{version, "2026-07-28"}, 429, "2026-07-28"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.do(tt.method, r.url, tt.body, tt.headers...); got.status != tt.status {
				t.Errorf("status %d, want %d: %s", got.status, tt.status, got.body)
			}
			if line := r.lines(i + 1)[i]; line["dialect"] != tt.want {
				t.Errorf("dialect %v, want %s: %v", line["dialect"], tt.want, line)
			}
		})
	}
}

// The line of a request names the rule that admitted the answer, as the line of a frame does,
// unless the request's own rule did more than allow.
func TestLineHasTheRuleThatAdmittedTheAnswer(t *testing.T) {
	t.Parallel()
	const down = "    - {id: down, action: rate_limit, tokens_per_second: 1, burst: 9, when: {direction: server_to_client}}\n"
	const allowDown = "    - {id: down, action: allow, when: {direction: server_to_client}}\n"
	const stripDown = "    - {id: down, action: strip_app, when: {direction: server_to_client}}\n"
	for _, tt := range []struct{ name, rules, action, rule string }{
		{"no rule for the request", down, "allow", "down"},
		{"no rule for the request, an allow for the answer", allowDown, "allow", "down"},
		{"an allow for the request", down + "    - {id: up, action: allow, when: {tool_name: t}}\n", "allow", "down"},
		{"an allow for both", allowDown + "    - {id: up, action: allow, when: {tool_name: t}}\n", "allow", "up"},
		{"a rate_limit for both", down + "    - {id: up, action: rate_limit, tokens_per_second: 1, burst: 9, when: {tool_name: t}}\n", "allow", "up"},
		{"a redact for the request", down + "    - {id: up, action: redact, when: {tool_name: t}, redact: [{regex: x, replacement: y}]}\n", "redact", "up"},
		{"a strip_app that removes nothing", stripDown + "    - {id: up, action: allow, when: {tool_name: t}}\n", "allow", "down"},
		{"another kind of answer", strings.Replace(down, "server_to_client", "server_to_client, result_type: input_required", 1), "allow", ""},
	} {
		for _, stream := range []bool{false, true} {
			name := tt.name
			if stream {
				name += ", in a stream"
			}
			t.Run(name, func(t *testing.T) {
				up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
					const body = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
					if stream {
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = io.WriteString(w, "data: "+body+"\n\n")
						return
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, body)
				})
				r := newRig(t, rules(open(up.URL), tt.rules))
				if got := r.post(call("1", "t")); got.status != 200 {
					t.Fatalf("%d %s", got.status, got.body)
				}
				recs := r.records()
				if rec := recs[len(recs)-1]; rec.Action != tt.action || rec.RuleID != tt.rule {
					t.Errorf("action %s, rule %q, want %s, %q", rec.Action, rec.RuleID, tt.action, tt.rule)
				}
			})
		}
	}
}

// A strip_app that matched and removed nothing is recorded with count zero, for an answer as for
// a frame.
func TestStripAppThatRemovedNothingIsCounted(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}`
	for _, tt := range []struct{ name, kind, body, rule, want string }{
		{"an answer", "application/json", answer, "tool_name: t", "request 0"},
		{"a frame", "text/event-stream", "data: " + answer + "\n\n", "tool_name: t", "open -, frame 0, request 0"},
		{"a rule for answers", "application/json", answer, "direction: server_to_client", "request 0"},
		{"another tool", "application/json", answer, "tool_name: other", "request -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				_, _ = io.WriteString(w, tt.body)
			})
			r := newRig(t, rules(open(up.URL), "    - {id: strip, action: strip_app, when: {"+tt.rule+"}}\n"))
			r.edit("audit:\n", "audit:\n  frames: all\n")
			if err := r.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := r.post(call("1", "t")); got.status != 200 || !strings.Contains(got.body, `"text":"a"`) {
				t.Fatalf("%d %s", got.status, got.body)
			}
			var lines []string
			for _, line := range r.all() {
				stripped := "-"
				if n, ok := line["stripped"]; ok {
					stripped = fmt.Sprint(n)
				}
				lines = append(lines, fmt.Sprint(line["kind"], " ", stripped))
			}
			if got := strings.Join(lines, ", "); got != tt.want {
				t.Errorf("lines %s, want %s", got, tt.want)
			}
		})
	}
}

// The clientInfo of a client is in each audit line of its session, also after a restart of the
// gateway, and in the lines of requests without a session. As a label it requires authentication.
func TestClientsAreNamed(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		var m mcp.Message
		_ = mcp.Scan([]byte(body), &m)
		w.Header().Set("Content-Type", "application/json")
		if m.Method == mcp.MethodInitialize {
			w.Header().Set(mcp.HeaderSession, "of-the-upstream")
		}
		io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{}}`)
	})
	r := newRig(t, basic(up.URL))
	opened := r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"2.1\n","title":"x"}}}`)
	session := opened.header.Get(mcp.HeaderSession)
	if opened.status != 200 || session == "" {
		t.Fatalf("%d %s", opened.status, opened.body)
	}
	r.post(call("2", "safe"), mcp.HeaderSession, session)
	r.post(call("3", "danger"), mcp.HeaderSession, session)
	r.post(call("4", "safe"))
	modern := strings.Replace(call("5", "safe"), `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"cursor","version":"9"},"io.modelcontextprotocol/clientCapabilities":{}},`, 1)
	if got := r.post(modern, append(modernHeaders("tools/call"), "Mcp-Name", "safe")...); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	claude := map[string]any{"name": "claude-code", "version": "2.1\n"}
	for i, want := range []any{claude, claude, claude, nil, map[string]any{"name": "cursor", "version": "9"}} {
		if got := r.lines(5)[i]["client"]; !reflect.DeepEqual(got, want) {
			t.Errorf("line %d: %v, want %v", i, got, want)
		}
	}
}
