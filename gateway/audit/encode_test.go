package audit

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lineOf is the line of a record without a chain.
func lineOf(r *Record) []byte {
	s := chainWriter{}
	b := s.appendLine(nil, r.appendBody(nil))
	return b[:len(b)-1]
}

func full() *Record {
	return &Record{
		Seq: 1, Time: time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC), Kind: KindFrame,
		RequestID: "id", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Action: "strip_app", RuleID: "r", ErrorKind: "sse_truncated", Approval: "granted", ApprovalID: "apr_1", ApprovedBy: "usr_1",
		Labels: []string{"private", "untrusted"}, Sets: []string{"private"},
		RPC: "notification", Method: "notifications/progress", Tool: "tool", UpstreamTool: "own", URI: "skill://a/SKILL.md", Via: "mcp_call", View: "support", LeftOut: []LeftOut{{"crm", "no-crm"}, {Upstream: "web"}}, Tokens: []EntityCount{{"EMAIL", 2}}, Restored: []EntityCount{{"PHONE", 1}, {"IBAN", 3}}, TokensRefused: []EntityCount{{"SSN", 1}}, Direction: "server_to_client",
		ResultType: "input_required", IsError: true, Upstream: "up", Principal: "alice", PrincipalKind: "oauth",
		KeyID: "ci", KeyN: 2, OAuthClientName: "Client", ClientName: "claude-code", ClientVersion: "2.1", ClientIP: "::1", Agent: "agent", Environment: "prod", Session: "s",
		Dialect: "2026-07-28", Status: 200, Duration: 1234567 * time.Microsecond, BytesIn: 1, BytesOut: math.MaxInt64, Frames: 3,
		GuardrailName: "g", GuardrailVerdict: "pass", GuardrailLatency: 5 * time.Millisecond, StripApplied: true, Stripped: 2, ReplacedSurrogates: 3,
		TaskHandle: "t", SubscriptionID: "sub", Spans: []Span{{"policy_eval", time.Millisecond}, {"provider", 0}},
		InjectionScore: 0.125, PIIDetected: []string{"EMAIL", "IBAN"}, PoliciesFired: []PolicyFired{{"p", "n", "warn"}},
		Observed: []Observed{{"r2", "deny", ""}, {"r3", "allow", "required"}}, QualityScores: []QualityScore{{"output_schema", 0.5}},
	}
}

func TestLineHasEveryFieldByItsName(t *testing.T) {
	const want = `{"seq":1,"ts":"2026-11-20T12:00:00.123456Z","kind":"frame","request_id":"id",` +
		`"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","action":"strip_app","rule_id":"r","error_kind":"sse_truncated","approval":"granted","approval_id":"apr_1","approved_by":"usr_1",` +
		`"labels":["private","untrusted"],"sets":["private"],"rpc":"notification","method":"notifications/progress","tool":"tool","upstream_tool":"own","uri":"skill://a/SKILL.md","via":"mcp_call","view":"support","direction":"server_to_client",` +
		`"result_type":"input_required","is_error":true,"upstream":"up","principal":"alice","principal_kind":"oauth",` +
		`"key_id":"ci","key_n":2,"oauth_client_name":"Client","client":{"name":"claude-code","version":"2.1"},"client_ip":"::1","agent":"agent","environment":"prod","session":"s",` +
		`"dialect":"2026-07-28","status":200,"duration_ms":1234.567,"bytes_in":1,"bytes_out":9223372036854775807,"frames":3,` +
		`"guardrail_name":"g","guardrail_verdict":"pass","guardrail_latency_ms":5.000,"stripped":2,"replaced_surrogates":3,"task_handle":"t",` +
		`"subscription_id":"sub","spans":[{"stage":"policy_eval","duration_ms":1.000},{"stage":"provider","duration_ms":0.000}],` +
		`"injection_score":0.125,"pii_detected":["EMAIL","IBAN"],"policies_fired":[{"id":"p","name":"n","action":"warn"}],` +
		`"observed":[{"rule_id":"r2","action":"deny"},{"rule_id":"r3","action":"allow","approval":"required"}],"left_out":[{"upstream":"crm","rule_id":"no-crm"},{"upstream":"web"}],"quality_scores":[{"scorer":"output_schema","score":0.5}],"tokens":{"EMAIL":2},"restored":{"PHONE":1,"IBAN":3},"tokens_refused":{"SSN":1}}`
	if diff := cmp.Diff(want, string(lineOf(full()))); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFieldComesBack(t *testing.T) {
	want := full()
	var got Record
	if err := Decode(lineOf(want), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Error(diff)
	}
}

// A strip_app that was applied is counted also where it removed nothing; a line without one has
// no count.
func TestStrippedIsWrittenWhereNothingWasRemoved(t *testing.T) {
	for _, row := range []struct {
		name, want string
		rec        Record
	}{
		{"not applied", "", Record{}},
		{"applied, nothing removed", `,"stripped":0`, Record{StripApplied: true}},
		{"applied, two removed", `,"stripped":2`, Record{StripApplied: true, Stripped: 2}},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := row.rec
			want.Seq, want.Kind, want.Dialect = 1, KindRequest, "legacy"
			line := lineOf(&want)
			if got := strings.Contains(string(line), `"stripped"`); got != (row.want != "") || !strings.Contains(string(line), row.want) {
				t.Errorf("line %s", line)
			}
			var got Record
			if err := Decode(line, &got); err != nil {
				t.Fatal(err)
			}
			if got.Time = want.Time; !cmp.Equal(want, got) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}

func TestHostileStringsStayOneLine(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"plain", "read_file", `"read_file"`},
		{"quotes and backslashes", `a"b\c`, `"a\"b\\c"`},
		{"CR and LF", "a\r\nb", `"a\u000d\u000ab"`},
		{"ANSI", "\x1b[31mred", `"\u001b[31mred"`},
		{"NUL and DEL", "\x00\x7f", `"\u0000\u007f"`},
		{"C1 controls", "\u009b31m", `"\u009b31m"`},
		{"line separators", "\u2028\u2029", `"\u2028\u2029"`},
		{"bidirectional marks", "a\u202eb", `"a\u202eb"`},
		{"a zero-width joiner", "a\u200db", `"a\u200db"`},
		{"tag characters beyond the first plane", "\U000E0041", `"\udb40\udc41"`},
		{"printable beyond ASCII", "größe 工具 🙂", `"größe 工具 🙂"`},
		{"not UTF-8", "a\xffb", `"a\ufffdb"`},
		{"half a rune", "a\xe5\xb7", `"a\ufffd\ufffd"`},
		{"long", strings.Repeat("x", 300), `"` + strings.Repeat("x", maxString-6) + `\u2026"`},
		{"just fits", strings.Repeat("x", maxString), `"` + strings.Repeat("x", maxString) + `"`},
		{"long and escaped", strings.Repeat("\n", 300), `"` + strings.Repeat(`\u000a`, 41) + `\u2026"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := string(appendString(nil, row.in, maxString)); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// For every record the line is valid JSON, a single bounded printable line, and decodes to the
// same values.
func TestLineIsAlwaysSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("\x00", 400)), rapid.Just(strings.Repeat("工", 400)),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		r := &Record{
			Time:     time.Unix(rapid.Int64().Draw(t, "time"), 0),
			Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
			Status:   rapid.Int().Draw(t, "status"), InjectionScore: rapid.Float64().Draw(t, "score"),
			BytesIn: rapid.Int64().Draw(t, "in"), GuardrailLatency: time.Duration(rapid.Int64().Draw(t, "latency")),
		}
		for _, s := range []*string{
			&r.RequestID, &r.Method, &r.Tool, &r.Principal, &r.GuardrailName, &r.OAuthClientName,
			&r.Session, &r.TaskHandle, &r.SubscriptionID,
		} {
			*s = text.Draw(t, "text")
		}
		r.PIIDetected = rapid.SliceOfN(text, 0, 100).Draw(t, "pii")
		r.Labels, r.Sets = rapid.SliceOfN(text, 0, 100).Draw(t, "labels"), rapid.SliceOfN(text, 0, 100).Draw(t, "sets")
		for _, s := range rapid.SliceOfN(text, 0, 100).Draw(t, "fired") {
			r.PoliciesFired = append(r.PoliciesFired, PolicyFired{s, s, s})
			r.Spans = append(r.Spans, Span{s, r.Duration})
			r.Observed = append(r.Observed, Observed{s, s, s})
			r.QualityScores = append(r.QualityScores, QualityScore{s, r.InjectionScore})
		}
		line := lineOf(r)
		if !json.Valid(line) || !utf8.Valid(line) || len(line) >= MaxLine {
			t.Fatalf("%d bytes: %q", len(line), line)
		}
		for _, c := range string(line) {
			if !unicode.IsPrint(c) {
				t.Fatalf("%U in %q", c, line)
			}
		}
		var got Record
		if err := Decode(line, &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		var std struct {
			Tool     string  `json:"tool"`
			Session  string  `json:"session"`
			Duration float64 `json:"duration_ms"`
		}
		if err := json.Unmarshal(line, &std); err != nil {
			t.Fatal(err)
		}
		if std.Tool != got.Tool || std.Session != got.Session {
			t.Fatalf("encoding/json reads %+v, Decode %+v", std, got)
		}
	})
}

func TestDecodeRefusesWhatIsNoLine(t *testing.T) {
	for _, row := range []struct{ name, line string }{
		{"empty", ""}, {"null", "null"}, {"an array", "[]"}, {"an empty object", "{}"},
		{"no number", `{"kind":"request"}`}, {"no kind", `{"seq":1}`},
		{"a bad time", `{"seq":1,"ts":"yesterday","kind":"request"}`},
		{"a number for a string", `{"seq":1,"kind":"request","tool":1}`},
		{"a string for a number", `{"seq":"1","kind":"request"}`},
		{"something behind", `{"seq":1,"kind":"request"}x`},
		{"cut short", `{"seq":1,"kind":"request"`},
		{"a lone surrogate", `{"seq":1,"kind":"request","tool":"\ud800"}`},
		{"deep nesting", `{"seq":1,"kind":"request","x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`},
		{"17 labels", `{"seq":1,"kind":"request","labels":["a"` + strings.Repeat(`,"a"`, 16) + `]}`},
		{"17 labels in two members", `{"seq":1,"kind":"request","sets":["a"` + strings.Repeat(`,"a"`, 15) + `],"sets":["a"]}`},
		{"a label of 33 characters", `{"seq":1,"kind":"request","sets":["` + strings.Repeat("a", 33) + `"]}`},
		{"a label that is no text", `{"seq":1,"kind":"request","labels":[1]}`},
		{"a negative duration", `{"seq":1,"kind":"request","duration_ms":-1}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var r Record
			if err := Decode([]byte(row.line), &r); err == nil {
				t.Errorf("accepted as %+v", r)
			}
		})
	}
}

func TestDecodeSkipsWhatLaterVersionsAdd(t *testing.T) {
	var r Record
	err := Decode([]byte(`{"seq":7,"new":{"a":[1,true,null,"x"]},"kind":"request","tool":"t\/\u0041","other":-1.5e3}`), &r)
	if err != nil || r.Seq != 7 || r.Tool != "t/A" {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(lineOf(full()))
	f.Add(lineOf(sample(1)))
	f.Add([]byte(`{"seq":1,"ts":"2026-11-20T12:00:00.000000Z","kind":"checkpoint","event":"start","prev":"00","lost":3,"torn_bytes":1}`))
	f.Add([]byte(`{"seq":18446744073709551615,"kind":"request","tool":"\ud83d\ude42"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		splitLine(line)
		var r Record
		if err := Decode(line, &r); err != nil {
			return
		}
		if r.Seq == 0 || r.Kind == "" || (r.Kind == KindCheckpoint) != (r.Checkpoint != nil) {
			t.Fatalf("accepted %+v", r)
		}
	})
}
