package check

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"svc/gateway/audit"
	"svc/gateway/config"
	"svc/gateway/policy"
)

// undecidedLines is the number of lines without enough data.
func undecidedLines(r *Report) uint64 {
	var n uint64
	for _, u := range r.Undecided {
		n += u.Lines
	}
	return n
}

// trail writes records like the gateway does, and returns the file.
func trail(t testing.TB, records ...audit.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	writeTrail(t, path, records)
	return path
}

func writeTrail(t rapid.TB, path string, records []audit.Record) {
	t.Helper()
	log, err := audit.Open(auditConfig(path), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := log.Write(context.Background(), &records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// auditConfig returns the section with default values.
func auditConfig(path string) audit.Config {
	file, _ := config.Parse("f.yaml", []byte(shop), nil)
	file.Audit.Path = path
	return file.Audit
}

// replayed reads a file under the rules of e.
func replayed(t rapid.TB, e *Engine, path string) *Report {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := e.NewReplay()
	if err := r.Read(f); err != nil {
		t.Fatal(err)
	}
	return r.Report()
}

// call is the audit line of a tools/call with an API key.
func call(tool, action, rule string) audit.Record {
	return audit.Record{Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), RequestID: "req-" + tool, RPC: audit.RPCRequest,
		Method: "tools/call", Tool: tool, Action: action, RuleID: rule, Principal: "bot", PrincipalKind: "key"}
}

func with(r audit.Record, change func(*audit.Record)) audit.Record {
	change(&r)
	return r
}

// TestReplayLine: the result for each kind of line.
func TestReplayLine(t *testing.T) {
	e := load(t, shop)
	frame := func(method, action, rule string) audit.Record {
		return audit.Record{Kind: audit.KindFrame, RPC: "notification", Method: method, Direction: "server_to_client", Action: action, RuleID: rule, Principal: "bot", PrincipalKind: "key"}
	}
	for _, c := range []struct {
		name string
		rec  audit.Record
		want string // same, or the kind and text of the reported change
	}{
		{"same rule, same action", call("delete_x", "deny", "no-deletes"), "same"},
		{"default deny", call("other", "deny", "default_deny"), "same"},
		{"default allow", with(call("", "allow", ""), func(r *audit.Record) { r.Method = "tools/list" }), "same"},
		{"a limit let pass", call("refund", "allow", "slow"), "same"},
		{"a limit refused", call("refund", "rate_limit_blocked", "slow"), "same"},
		{"a guardrail rejected", call("check", "deny", "ask"), "same"},
		{"a guardrail masked", call("check", "redact", "ask"), "same"},
		{"a redaction was refused", call("get_order", "deny", "mask"), "same"},
		{"an error after the decision", with(call("search_a", "allow", "search"), func(r *audit.Record) { r.ErrorKind = "upstream_unreachable" }), "same"},
		{"a frame that a rule redacted", frame("notifications/message", "redact", "mask-down"), "same"},
		{"a frame without rule", frame("notifications/progress", "allow", ""), "same"},
		{"an answer that asks for input", with(frame("", "deny", "no-input"), func(r *audit.Record) { r.RPC, r.ResultType = audit.RPCResponse, "input_required" }), "same"},
		{"the result type on a request's line is that of its answer", with(call("search_a", "allow", "search"), func(r *audit.Record) { r.ResultType = "input_required" }), "same"},

		{"allowed, would be denied", call("delete_x", "allow", "tools"), "changed allow tools -> deny no-deletes"},
		{"denied, would pass", call("search_a", "deny", "default_deny"), "changed deny default_deny -> allow search"},
		{"the rule's action is another", call("search_a", "deny", "search"), "changed deny search -> allow search"},
		{"would be limited", call("refund", "allow", "tools"), "changed allow tools -> rate_limit slow"},
		{"another rule, the same action", call("search_a", "allow", "tools"), "rule only allow tools -> allow search"},
		{"an observing rule decides nothing", call("search_web", "allow", "search"), "same"},

		{"needs approval and passed without", call("wipe", "allow", "wipes"), "changed allow wipes -> approval wipes"},
		{"needs approval and was denied", call("wipe", "deny", "default_deny"), "changed deny default_deny -> approval wipes"},
		{"an approval that was granted", with(call("wipe", "allow", "wipes"), func(r *audit.Record) { r.Approval = "granted" }), "same"},
		{"an approval that was continued", with(call("wipe", "allow", "wipes"), func(r *audit.Record) { r.Approval = "continued" }), "same"},
		{"an approval that nobody has decided", with(call("wipe", "deny", "wipes"), func(r *audit.Record) { r.Approval, r.ErrorKind = "required", "approval_required" }), "same"},
		{"an approval by another rule", with(call("wipe", "allow", "old"), func(r *audit.Record) { r.Approval = "granted" }), "rule only allow old -> allow wipes"},
		{"granted, and no approval is needed now", with(call("search_a", "allow", "search"), func(r *audit.Record) { r.Approval = "granted" }), "same"},
		{"not granted, and no approval is needed now", with(call("search_a", "deny", "search"), func(r *audit.Record) { r.Approval = "required" }), "changed deny search -> allow search"},
		{"decided on the answer to an approved call", with(call("wipe", "redact", "no-input"), func(r *audit.Record) { r.Approval, r.ResultType = "granted", "input_required" }), "changed redact no-input -> deny no-input"},

		{"claims could decide", with(call("search_a", "allow", "search"), func(r *audit.Record) { r.PrincipalKind = "oauth" }), `undecided rule "staff" has a condition on claims`},
		{"claims that come too late", with(call("delete_x", "allow", "x"), func(r *audit.Record) { r.PrincipalKind = "oauth" }), "changed allow x -> deny no-deletes"},
		{"claims on other tools", with(call("refund", "allow", "slow"), func(r *audit.Record) { r.PrincipalKind = "oauth" }), "same"},
		{"an address has no claims", with(call("search_a", "allow", "search"), func(r *audit.Record) { r.PrincipalKind = "ip" }), "same"},
		{"who it was is not told", with(call("search_a", "allow", "search"), func(r *audit.Record) { r.PrincipalKind = "" }), `undecided rule "staff"`},

		{"unauthorized", audit.Record{Action: "deny", ErrorKind: "unauthorized"}, "skipped no message was read"},
		{"a stream of its own", audit.Record{Action: "allow"}, "skipped no message was read"},
		{"refused before the rules", with(call("x", "deny", ""), func(r *audit.Record) { r.ErrorKind = "session_not_found" }), "skipped refused by the gateway itself: session_not_found"},
		{"requests that are only counted", audit.Record{Kind: audit.KindSummary, Refused: &audit.Refused{}}, "skipped summaries of requests that were refused"},
		{"opening", with(call("x", "allow", ""), func(r *audit.Record) { r.Kind = audit.KindOpen }), "skipped openings of streams"},
		{"decided on the answer", with(call("search_a", "deny", "no-input"), func(r *audit.Record) { r.ResultType = "input_required" }), "same"},
		{"decided on the answer, and the request would not pass", with(call("delete_x", "redact", "no-input"), func(r *audit.Record) { r.ResultType = "input_required" }), "changed redact no-input -> deny no-deletes"},
		{"decided on the answer, otherwise now", with(call("search_a", "redact", "no-input"), func(r *audit.Record) { r.ResultType = "complete" }), "changed redact no-input -> allow "},
		{"decided on the answer by a rule that is gone", call("search_a", "redact", "hide"), "changed redact hide -> allow search"},
		{"a policy of the control plane", with(call("search_a", "deny", "search"), func(r *audit.Record) {
			r.PoliciesFired = []audit.PolicyFired{{ID: "p", Name: "n", Action: "block"}}
		}), "skipped a policy of the control plane decided"},
		{"no policies of the control plane", with(call("search_a", "deny", "search"), func(r *audit.Record) { r.ErrorKind = "governance_unavailable" }), "skipped a policy of the control plane decided"},
		{"a policy that warned", with(call("search_a", "allow", "search"), func(r *audit.Record) {
			r.PoliciesFired = []audit.PolicyFired{{ID: "p", Name: "n", Action: "warn"}}
		}), "same"},
		{"a name that was cut", call("search_"+strings.Repeat("x", 400), "allow", "search"), "skipped the name was too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := replayed(t, e, trail(t, c.rec))
			got := describe(report)
			if asks := c.rec.Tool == "wipe"; asks != (len(report.Approvals) == 1 && report.Approvals[0] == RuleCount{"wipes", 1}) {
				t.Errorf("approvals %v", report.Approvals)
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// describe returns one line for each record that a report counts; checkpoints
// left out.
func describe(r *Report) []string {
	var out []string
	for range r.Same {
		out = append(out, "same")
	}
	add := func(kind string, groups []Group) {
		for _, g := range groups {
			for range g.Lines {
				out = append(out, fmt.Sprintf("%s %s %s -> %s %s", kind, g.From.Action, g.From.Rule, g.To.Action, g.To.Rule))
			}
		}
	}
	add("changed", r.Changed)
	add("rule only", r.RuleOnly)
	for _, u := range r.Undecided {
		for range u.Lines {
			out = append(out, "undecided "+u.Reason)
		}
	}
	for _, u := range r.Skipped {
		for range u.Lines {
			if !strings.HasPrefix(u.Reason, "checkpoints") {
				out = append(out, "skipped "+u.Reason)
			}
		}
	}
	return out
}

// Under the rules that produced it an audit log has no changes, for any rules, as long as
// no claims are involved; with claims no line is reported as changed.
func TestReplayUnderTheSameRules(t *testing.T) {
	actions := rapid.SampledFrom([]string{"allow", "deny", "strip_app", "rate_limit", "approval"})
	tools := rapid.SampledFrom([]string{"a", "ab", "b", "b_x"})
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		count := rapid.IntRange(0, 6).Draw(t, "rules")
		for i := range count {
			when := rapid.SampledFrom([]string{"tool_prefix: a", "tool_name: b", `tool_glob: "*_x"`, "tool_regex: a|b", "method: ping", "direction: server_to_client", ""}).Draw(t, "when")
			if rapid.IntRange(0, 3).Draw(t, "claimed") == 0 {
				when = strings.TrimPrefix(when+", claims: {groups: [g]}", ", ")
			}
			action, extra := actions.Draw(t, "action"), ""
			if action == "rate_limit" {
				extra = ", tokens_per_second: 1"
			}
			if action == "approval" {
				if action = "allow"; !strings.Contains(when, "ping") && !strings.Contains(when, "direction") {
					extra = ", approval: {}"
				}
			}
			fmt.Fprintf(&b, "    - {id: r%d, action: %s, when: {%s}%s}\n", i, action, when, extra)
		}
		head, _, _ := strings.Cut(shop, "  rules:\n")
		const tail = "audit: {path: audit.jsonl}\ncontrol_plane: {url: \"https://control.example\", ingest_key: svc_ingest_x}\n"
		text := head + "  rules: []\n" + tail
		if count > 0 {
			text = head + "  rules:\n" + b.String() + tail
		}
		file, found := config.Parse("f.yaml", []byte(text), nil)
		if file == nil {
			t.Fatal(found)
		}
		e, err := New(file)
		if err != nil {
			t.Fatal(err)
		}
		var records []audit.Record
		identified := 0
		for range 20 {
			q := policy.Request{Method: rapid.SampledFrom([]string{"tools/call", "ping"}).Draw(t, "method")}
			rec := audit.Record{RPC: audit.RPCRequest, Method: q.Method, PrincipalKind: "key", Principal: "bot"}
			switch {
			case rapid.IntRange(0, 3).Draw(t, "way") == 0:
				q.Direction, rec.Kind, rec.Direction = policy.ServerToClient, audit.KindFrame, "server_to_client"
			case q.Method == "tools/call":
				q.Tool, q.HasTool = tools.Draw(t, "tool"), true
				rec.Tool = q.Tool
			}
			if rapid.Bool().Draw(t, "token") {
				q.Claims, rec.PrincipalKind = &policy.Claims{}, "oauth"
				if rapid.Bool().Draw(t, "member") {
					q.Claims.Groups = []string{"g"}
				}
				identified++
			}
			d := e.rules.Decide(&q)
			rec.Action, rec.RuleID = d.Action.String(), d.RuleID
			if d.Action == policy.RateLimit {
				rec.Action = rapid.SampledFrom([]string{"allow", "rate_limit_blocked"}).Draw(t, "bucket")
			}
			if d.Approval() != nil {
				if rec.Approval = rapid.SampledFrom([]string{"granted", "denied"}).Draw(t, "approval"); rec.Approval == "denied" {
					rec.Action = "deny"
				}
			}
			if q.Direction == policy.ClientToServer && rec.Action != "deny" && rec.Action != "rate_limit_blocked" {
				// The decision about the response replaces the one about the request.
				answer := policy.Request{Direction: policy.ServerToClient, Claims: q.Claims}
				if a := e.rules.Decide(&answer); a.RuleID != "" && a.Action != policy.Allow && a.Action != policy.RateLimit {
					rec.Action, rec.RuleID = a.Action.String(), a.RuleID
				}
			}
			records = append(records, rec)
		}
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		writeTrail(t, path, records)
		got := replayed(t, e, path)
		if len(got.Changed)+len(got.RuleOnly) > 0 || got.Malformed > 0 || got.Same+undecidedLines(got) != uint64(len(records)) ||
			undecidedLines(got) > uint64(identified) {
			t.Fatalf("got %+v for\n%s", got, text)
		}
	})
}

// Groups count lines and callers by tool, with examples, and are bounded.
func TestReplayGroups(t *testing.T) {
	e := load(t, shop)
	var records []audit.Record
	for i := range 10 {
		who := fmt.Sprintf("bot-%d", i%4)
		records = append(records, with(call(fmt.Sprintf("delete_%d", i%2), "allow", "tools"), func(r *audit.Record) { r.Principal = who }))
	}
	records = append(records, call("delete_9", "allow", "tools"), call("refund", "deny", "old"))
	r := replayed(t, e, trail(t, records...))
	if len(r.Changed) != 2 || r.ChangedLines() != 12 || r.Redecided != 12 {
		t.Fatalf("got %+v", r)
	}
	g := r.Changed[0]
	if g.Lines != 11 || len(g.Rows) != 3 || g.Rows[0].Lines != 5 || g.Rows[0].Principals != 2 || len(g.Rows[0].Examples) != maxExamples ||
		g.Rows[0].Examples[0].RequestID != "req-"+g.Rows[0].Tool || g.Rows[2].Tool != "delete_9" {
		t.Errorf("got %+v", g)
	}
}

// A log with ever new names uses no more memory than the limits.
func TestReplayIsBounded(t *testing.T) {
	e := load(t, shop)
	r := e.NewReplay()
	rec := call("", "allow", "")
	for i := range 3 * maxRows {
		rec.Tool, rec.Principal, rec.RuleID = fmt.Sprintf("delete_%d", i), fmt.Sprint(i), ""
		r.record(&rec)
		rec.Tool, rec.RuleID = "delete_x", fmt.Sprintf("rule-%d", i)
		r.record(&rec)
		rec.Action, rec.RuleID, rec.ErrorKind = "deny", "", fmt.Sprintf("kind-%d", i)
		r.record(&rec)
		rec.Action = "allow"
	}
	if len(r.groups) > maxRows || r.rows > maxRows || len(r.memo) > maxMemo || len(r.skipped) > maxReasons+1 || max(r.principals[0], r.principals[1]) > maxPrincipals {
		t.Errorf("%d groups, %d rows, %d answers, %d reasons, %d callers", len(r.groups), r.rows, len(r.memo), len(r.skipped), r.principals[0])
	}
	got := r.Report()
	if total := got.Redecided + undecidedLines(got); total != 6*maxRows {
		t.Errorf("%d lines are accounted for", total)
	}
}

// Lines of any length that are not audit lines are counted, and the rest is read.
func TestReplayMalformed(t *testing.T) {
	e := load(t, shop)
	good, err := os.ReadFile(trail(t, call("delete_x", "deny", "no-deletes")))
	if err != nil {
		t.Fatal(err)
	}
	text := "no json\n{}\n\n" + strings.Repeat("x", 5*audit.MaxLine) + "\n" + string(good) + `{"seq":1,"kind":"requ`
	r := e.NewReplay()
	if err := r.Read(iotest.HalfReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	if got := r.Report(); got.Malformed != 4 || got.Same != 1 {
		t.Errorf("got %+v", got)
	}
	if err := e.NewReplay().Read(iotest.ErrReader(os.ErrPermission)); err == nil {
		t.Error("an error of the file is lost")
	}
}

func FuzzReplay(f *testing.F) {
	e := load(f, shop)
	f.Add([]byte(`{"seq":1,"ts":"2026-11-21T12:00:00.000000Z","kind":"request","action":"allow","rpc":"request","method":"tools/call","tool":"x"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := e.NewReplay()
		if err := r.Read(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		got := r.Report()
		var skipped uint64
		for _, s := range got.Skipped {
			skipped += s.Lines
		}
		if got.Redecided+undecidedLines(got)+skipped+got.Malformed != got.Lines {
			t.Fatalf("lines are lost: %+v", got)
		}
	})
}

// BenchmarkReplay re-evaluates lines as gateways write them, in MB/s.
func BenchmarkReplay(b *testing.B) {
	e := load(b, shop)
	var records []audit.Record
	for i := range 20_000 {
		rec := call(fmt.Sprintf("search_%d", i%500), "allow", "search")
		rec.RequestID, rec.TraceID = fmt.Sprintf("0193a1b2-c3d4-7e5f-8a9b-%012d", i), "4bf92f3577b34da6a3ce929d0e0e4736"
		rec.Upstream, rec.KeyID, rec.ClientIP, rec.Dialect, rec.Status = "search", "bot", "127.0.0.1", "2025-06-18", 200
		rec.Duration, rec.BytesIn, rec.BytesOut = 1500*time.Microsecond, 300, 2000
		rec.Spans = []audit.Span{{Stage: "policy_eval", Duration: 2 * time.Microsecond}, {Stage: "provider", Duration: time.Millisecond}}
		if i%50 == 0 {
			rec.RuleID = "tools"
		}
		records = append(records, rec)
	}
	data, err := os.ReadFile(trail(b, records...))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := e.NewReplay().Read(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(records)), "lines/op")
}
