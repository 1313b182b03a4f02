package audit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// ocsfObject has the members of an object of OCSF 1.5.0 that events may use. A kind is text, number,
// texts (a list), anything, the name of an object, or that with [] (a list).
type ocsfObject struct {
	required   map[string]string
	optional   map[string]string
	atLeastOne []string
}

var ocsfSchema = map[string]ocsfObject{
	"api_activity": {
		required: map[string]string{
			"activity_id": "number", "category_uid": "number", "class_uid": "number", "type_uid": "number", "severity_id": "number",
			"time": "number", "metadata": "metadata", "actor": "actor", "api": "api", "src_endpoint": "endpoint",
		},
		optional: map[string]string{
			"activity_name": "text", "action": "text", "action_id": "number", "authorizations": "authorization[]", "count": "number",
			"disposition_id": "number", "dst_endpoint": "endpoint", "duration": "number", "end_time": "number", "firewall_rule": "entity",
			"http_request": "http_request", "http_response": "http_response", "message": "text", "resources": "resource[]",
			"start_time": "number", "status": "text", "status_code": "text", "status_id": "number", "trace": "trace", "unmapped": "anything",
		},
	},
	"metadata": {
		required: map[string]string{"product": "entity", "version": "text"},
		optional: map[string]string{"event_code": "text", "log_name": "text", "original_time": "text", "profiles": "texts"},
	},
	"entity": {optional: map[string]string{"name": "text", "uid": "text"}, atLeastOne: []string{"name", "uid"}},
	"actor": {
		optional:   map[string]string{"app_name": "text", "session": "session", "user": "user"},
		atLeastOne: []string{"app_name", "app_uid", "invoked_by", "process", "session", "user"},
	},
	"user": {
		optional:   map[string]string{"credential_uid": "text", "name": "text", "type": "text", "type_id": "number", "uid": "text"},
		atLeastOne: []string{"account", "name", "uid"},
	},
	"session":       {optional: map[string]string{"uid": "text"}},
	"api":           {required: map[string]string{"operation": "text"}, optional: map[string]string{"request": "request", "service": "entity", "version": "text"}},
	"request":       {required: map[string]string{"uid": "text"}},
	"trace":         {required: map[string]string{"uid": "text"}},
	"authorization": {optional: map[string]string{"decision": "text", "policy": "entity"}},
	"resource":      {optional: map[string]string{"name": "text", "type": "text", "uid": "text"}, atLeastOne: []string{"name", "uid"}},
	"http_request":  {optional: map[string]string{"body_length": "number"}},
	"http_response": {required: map[string]string{"code": "number"}, optional: map[string]string{"body_length": "number"}},
	"endpoint": {
		optional:   map[string]string{"ip": "text", "name": "text", "svc_name": "text"},
		atLeastOne: []string{"ip", "uid", "name", "hostname", "svc_name", "instance_uid", "interface_uid", "interface_name", "domain"},
	},
}

// schemaErrors returns what is wrong with a value of a kind.
func schemaErrors(path, kind string, value any) (found []string) {
	wrong := func(format string, args ...any) { found = append(found, path+" "+fmt.Sprintf(format, args...)) }
	if item, ok := strings.CutSuffix(kind, "[]"); ok || kind == "texts" {
		list, _ := value.([]any)
		if len(list) == 0 {
			wrong("is no list with items")
		}
		if kind == "texts" {
			item = "text"
		}
		for i, v := range list {
			found = append(found, schemaErrors(fmt.Sprintf("%s[%d]", path, i), item, v)...)
		}
		return found
	}
	switch kind {
	case "anything":
	case "text":
		if s, ok := value.(string); !ok || s == "" {
			wrong("is no text: %v", value)
		}
	case "number":
		if _, ok := value.(float64); !ok {
			wrong("is no number: %v", value)
		}
	default:
		members, ok := value.(map[string]any)
		if !ok {
			wrong("is no object")
		}
		object := ocsfSchema[kind]
		for name := range object.required {
			if members[name] == nil {
				wrong("has no %s", name)
			}
		}
		if one := object.atLeastOne; one != nil && !slices.ContainsFunc(one, func(name string) bool { return members[name] != nil }) {
			wrong("has none of %s", one)
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			of := object.required[name] + object.optional[name]
			if of == "" {
				wrong("has the unknown member %s", name)
				continue
			}
			found = append(found, schemaErrors(path+"."+name, of, members[name])...)
		}
	}
	return found
}

// inOCSF returns the event of a line, after it was checked against the schema: every member of the line
// is in the event, or below unmapped.
func inOCSF(t testing.TB, r *Record) (event map[string]any, text string) {
	t.Helper()
	line := lineOf(r)
	out := (&SinkConfig{Format: FormatOCSF}).form(line)
	if !jsontext.Value(out).IsValid() { // also where a name is there twice
		t.Fatalf("not JSON: %s", out)
	}
	var before map[string]any
	if err := json.Unmarshal(out, &event); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &before); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range schemaErrors("event", "api_activity", event) {
		t.Errorf("%s: %s", wrong, out)
	}
	unmapped, _ := event["unmapped"].(map[string]any)
	for name, value := range before {
		mapped := slices.ContainsFunc(ocsfMapping, func(m ocsfMember) bool { return m.from == name })
		if got, kept := unmapped[name]; kept && !cmp.Equal(got, value) || !kept && !mapped {
			t.Errorf("%s of the line is lost or another: %v, want %v", name, got, value)
		}
	}
	return event, string(out)
}

func TestOCSFHasEveryMemberByItsName(t *testing.T) {
	r := full()
	r.Kind = KindRequest
	_, got := inOCSF(t, r)
	const want = `{"activity_id":99,"activity_name":"notifications/progress","category_uid":6,"class_uid":6003,"type_uid":600399,"severity_id":2,` +
		`"metadata":{"version":"1.5.0","product":{"name":"svc"},"profiles":["security_control","trace"],"log_name":"audit","event_code":"request","original_time":"2026-11-20T12:00:00.123456Z"},` +
		`"time":1795176000123,"start_time":1795176000123,"end_time":1795176001358,"duration":1234,` +
		`"status_id":2,"status":"Failure","status_code":"sse_truncated","action_id":4,"action":"strip_app","disposition_id":11,"firewall_rule":{"uid":"r"},"authorizations":[{"decision":"warn","policy":{"uid":"p","name":"n"}}],"trace":{"uid":"4bf92f3577b34da6a3ce929d0e0e4736"},` +
		`"actor":{"user":{"name":"alice","type_id":99,"type":"oauth","credential_uid":"ci"},"session":{"uid":"s"},"app_name":"Client"},` +
		`"api":{"operation":"notifications/progress","version":"2026-07-28","service":{"name":"up"},"request":{"uid":"id"}},` +
		`"src_endpoint":{"ip":"::1"},"dst_endpoint":{"svc_name":"up"},"resources":[{"type":"tool","name":"tool"}],"http_request":{"body_length":1},"http_response":{"body_length":9223372036854775807,"code":200},` +
		`"message":"notifications/progress tool strip_app sse_truncated",` +
		`"unmapped":{"seq":1,"approval":"granted","approval_id":"apr_1","approved_by":"usr_1","labels":["private","untrusted"],"sets":["private"],"rpc":"notification","upstream_tool":"own","uri":"skill://a/SKILL.md","via":"mcp_call","view":"support","direction":"server_to_client","result_type":"input_required","is_error":true,"key_n":2,"oauth_client_name":"Client","client":{"name":"claude-code","version":"2.1"},` +
		`"agent":"agent","environment":"prod","duration_ms":1234.567,"frames":3,"guardrail_name":"g","guardrail_verdict":"pass","guardrail_latency_ms":5.000,` +
		`"stripped":2,"replaced_surrogates":3,"task_handle":"t","subscription_id":"sub",` +
		`"spans":[{"stage":"policy_eval","duration_ms":1.000},{"stage":"provider","duration_ms":0.000}],"injection_score":0.125,"pii_detected":["EMAIL","IBAN"],"observed":[{"rule_id":"r2","action":"deny"},{"rule_id":"r3","action":"allow","approval":"required"}],"left_out":[{"upstream":"crm","rule_id":"no-crm"},{"upstream":"web"}],` +
		`"quality_scores":[{"scorer":"output_schema","score":0.5}],"tokens":{"EMAIL":2},"restored":{"PHONE":1,"IBAN":3},"tokens_refused":{"SSN":1}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOCSFOfEachOutcome(t *testing.T) {
	for _, row := range []struct {
		name string
		r    Record
		// activity_id, severity_id, status_id, action_id, disposition_id
		want [5]float64
	}{
		{"allowed", Record{Action: "allow", Method: "tools/call", Tool: "t", Status: 200, ClientIP: "192.0.2.1"}, [5]float64{99, 1, 1, 1, 1}},
		{"a list", Record{Action: "allow", Method: "tools/list", Status: 200}, [5]float64{2, 1, 1, 1, 1}},
		{"redacted", Record{Action: "redact", Method: "resources/read", Status: 200}, [5]float64{2, 1, 1, 4, 11}},
		{"denied by a rule", Record{Action: "deny", RuleID: "r", ErrorKind: "policy_denied", Method: "tools/call", Status: 403}, [5]float64{99, 3, 2, 2, 2}},
		{"denied by a policy", Record{Action: "deny", PoliciesFired: []PolicyFired{{"p", "n", "block"}}, Method: "tools/call", Status: 403}, [5]float64{99, 3, 2, 2, 2}},
		{"waits for a person", Record{Action: "deny", RuleID: "r", ErrorKind: "approval_required", Approval: "required", Method: "tools/call", Status: 403}, [5]float64{99, 1, 2, 2, 2}},
		{"refused by a person", Record{Action: "deny", RuleID: "r", ErrorKind: "approval_denied", Approval: "denied", Method: "tools/call", Status: 403}, [5]float64{99, 3, 2, 2, 2}},
		{"too many approvals", Record{Action: "deny", RuleID: "r", ErrorKind: "approval_limit", Approval: "limit", Method: "tools/call", Status: 429}, [5]float64{99, 2, 2, 2, 2}},
		{"nobody can be asked", Record{Action: "deny", RuleID: "r", ErrorKind: "approval_unavailable", Approval: "unavailable", Method: "tools/call", Status: 503}, [5]float64{99, 2, 2, 2, 2}},
		{"over a limit", Record{Action: "rate_limit_blocked", ErrorKind: "rate_limited", Method: "tools/call", Status: 429}, [5]float64{99, 2, 2, 2, 2}},
		{"refused before it was read", Record{Action: "deny", ErrorKind: "unauthorized", Status: 401}, [5]float64{0, 2, 2, 2, 2}},
		{"an upstream that is away", Record{Action: "allow", ErrorKind: "upstream_unreachable", Method: "tools/call", Status: 502}, [5]float64{99, 2, 2, 1, 1}},
		{"a tool's error", Record{Action: "allow", IsError: true, Method: "tools/call", Status: 200}, [5]float64{99, 2, 2, 1, 1}},
		{"without an answer", Record{Action: "allow", Method: "tools/call", ErrorKind: "client_closed", BytesOut: 3}, [5]float64{99, 2, 2, 1, 1}},
		{"a stream to listen that ended", Record{Action: "allow", ErrorKind: "client_closed", Status: 200, Spans: []Span{{StageListening, time.Hour}}}, [5]float64{0, 1, 0, 1, 1}},
		{"refused requests", Record{Kind: KindSummary, Refused: &Refused{Counts: []KindCount{{"unauthorized", 3}}, Addresses: []AddressCount{{"192.0.2.1", 3}}}}, [5]float64{0, 2, 2, 2, 2}},
		{"preflights", Record{Kind: KindSummary, Refused: &Refused{Counts: []KindCount{{CountPreflight, 3}}, Addresses: []AddressCount{{"2001:db8::/64", 3}}}}, [5]float64{0, 1, 1, 1, 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.r.Time = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
			e, text := inOCSF(t, &row.r)
			for i, name := range []string{"activity_id", "severity_id", "status_id", "action_id", "disposition_id"} {
				if e[name] != row.want[i] {
					t.Errorf("%s is %v, want %v: %s", name, e[name], row.want[i], text)
				}
			}
			if e["type_uid"] != 600300+e["activity_id"].(float64) {
				t.Errorf("type_uid %v", e["type_uid"])
			}
			if row.r.Refused != nil && e["count"] != 3.0 {
				t.Errorf("count %v, want 3", e["count"])
			}
		})
	}
}

// The number and the hash of a line lead from an event to the line in the file.
func TestOCSFHasNumberAndHash(t *testing.T) {
	chain := chainWriter{hashed: true, sha: sha256.New()}
	line := chain.appendLine(nil, sample(1).appendBody(nil))
	var event struct {
		Unmapped struct {
			Seq  uint64 `json:"seq"`
			Hash string `json:"hash"`
		} `json:"unmapped"`
	}
	if err := json.Unmarshal((&SinkConfig{Format: FormatOCSF}).form(line[:len(line)-1]), &event); err != nil {
		t.Fatal(err)
	}
	if event.Unmapped.Seq != 1 || event.Unmapped.Hash != chain.prev.String() {
		t.Errorf("%+v, want 1 and %s", event, chain.prev)
	}
}

func TestOtherLinesStayAsTheyAre(t *testing.T) {
	ocsf := SinkConfig{Format: FormatOCSF}
	for _, line := range []string{
		string(lineOf(&Record{Kind: KindOpen, Method: "tools/call"})), string(lineOf(full())), string(lineOf(&Record{Kind: KindEvent, ErrorKind: "x"})),
		string(lineOf(&Record{Kind: KindCheckpoint, Checkpoint: &Checkpoint{Event: eventStart}})), "{}", "no line", "",
	} {
		if got := string(ocsf.form([]byte(line))); got != line {
			t.Errorf("%s became %s", line, got)
		}
	}
	if line := lineOf(sample(1)); string((&SinkConfig{Format: FormatSvc}).form(line)) != string(line) {
		t.Error("format svc changed a line")
	}
}

// Whatever a line has, its event has the members that the schema requires, on one line of printable text.
func TestOCSFIsAlwaysSound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\u202e", "\x1b[31m", "<&>", strings.Repeat("工", 400), "::1"}))
		r := &Record{
			Time: time.Unix(rapid.Int64().Draw(rt, "time"), 0), Duration: time.Duration(rapid.Int64().Draw(rt, "duration")),
			Status: rapid.IntRange(0, 600).Draw(rt, "status"), BytesOut: rapid.Int64Min(0).Draw(rt, "out"),
		}
		for _, s := range []*string{
			&r.RequestID, &r.TraceID, &r.Action, &r.RuleID, &r.ErrorKind, &r.Method, &r.Tool, &r.Upstream, &r.Principal, &r.PrincipalKind,
			&r.KeyID, &r.OAuthClientName, &r.ClientName, &r.ClientIP, &r.Session, &r.Dialect,
		} {
			*s = text.Draw(rt, "text")
		}
		if rapid.Bool().Draw(rt, "summary") {
			r.Kind, r.Refused = KindSummary, &Refused{Addresses: []AddressCount{{text.Draw(rt, "address"), 1}}}
		}
		for range rapid.IntRange(0, 3).Draw(rt, "policies") {
			r.PoliciesFired = append(r.PoliciesFired, PolicyFired{"p" + text.Draw(rt, "id"), "n" + text.Draw(rt, "name"), "block"})
		}
		_, out := inOCSF(t, r)
		for _, c := range out {
			if !unicode.IsPrint(c) {
				rt.Fatalf("%U in %q", c, out)
			}
		}
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

func BenchmarkOCSF(b *testing.B) {
	ocsf, line := SinkConfig{Format: FormatOCSF}, lineOf(sample(1))
	b.ReportAllocs()
	for b.Loop() {
		ocsf.form(line)
	}
}
