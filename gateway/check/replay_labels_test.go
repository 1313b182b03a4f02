package check

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc/gateway/audit"
	"svc/gateway/config"
)

// labeled is a configuration whose rules look at labels.
const labeled = `
listen: 127.0.0.1:0
license: {path: /etc/svc/license.jwt}
upstreams:
  - {name: shop, url: "http://127.0.0.1:9/"}
  - {name: mail, url: "http://127.0.0.1:10/"}
default_upstream: shop
routes:
  - {match: {tool_prefix: mail_}, upstream: mail}
  - {match: {tool_name: "*"}, upstream: shop}
data_flow:
  scope: SCOPE
  window: 10m
  labels:
    - {name: untrusted, tool_glob: "web_*"}
    - {name: untrusted, upstreams: [mail]}
    - {name: private, tool_name: files_read}
    - {name: docs, uri_prefix: "file:///docs/"}
    - {name: suspicious, injection_score: 0.8}
policy:
  default_action: allow
  rules:
    - {id: no-web, action: deny, when: {tool_name: web_blocked}}
    - {id: no-exfiltration, action: deny, when: {tool_regex: "web_post|mail_send", labels_all: [untrusted, private]}}
    - {id: ask-first, action: allow, approval: {}, when: {tool_prefix: shell_, labels_any: [private]}}
    - {id: no-docs, action: deny, when: {tool_name: print, labels_any: [docs]}}
    - {id: careful, action: deny, when: {tool_name: pay, labels_any: [suspicious]}}
    - {id: keys, action: deny, when: {uri_prefix: "file:///keys/"}}
audit: {path: audit.jsonl}
control_plane: {url: "https://control.example", ingest_key: svc_ingest_x}
`

// A replay follows the labels of each caller: what sets them, whose they are, when they end, and what
// the lines do not tell. The result is that of the last line.
func TestReplayFollowsLabels(t *testing.T) {
	type step = func(*audit.Record)
	at := func(minutes float64) step {
		return func(r *audit.Record) { r.Time = r.Time.Add(time.Duration(minutes * float64(time.Minute))) }
	}
	by := func(who string) step { return func(r *audit.Record) { r.Principal = who } }
	in := func(session string) step { return func(r *audit.Record) { r.Session = session } }
	sets := func(labels ...string) step { return func(r *audit.Record) { r.Sets = labels } }
	line := func(tool string, changes ...step) audit.Record {
		r := call(tool, "allow", "")
		r.Kind, r.Upstream = audit.KindRequest, "shop"
		if strings.HasPrefix(tool, "mail_") {
			r.Upstream = "mail"
		}
		for _, c := range changes {
			c(&r)
		}
		return r
	}
	denied := func(rule string) step {
		return func(r *audit.Record) { r.Action, r.RuleID, r.Status = "deny", rule, 403 }
	}
	clears := func(labels ...string) step {
		return func(r *audit.Record) {
			r.Kind, r.Method, r.ErrorKind, r.Labels = audit.KindEvent, "", "labels_cleared", labels
		}
	}
	method := func(m string) step { return func(r *audit.Record) { r.Tool, r.Method = "", m } }
	long := func(d time.Duration) step { return func(r *audit.Record) { r.Duration = d } }
	const (
		exfiltration = "changed allow  -> deny no-exfiltration"
		unclear      = `undecided rule "no-exfiltration" has a condition on labels that earlier or overlapping calls may have set`
	)
	for _, c := range []struct {
		name  string
		lines []audit.Record
		want  string
		was   string // replaced in the configuration of then: old=new
	}{
		{"no label", []audit.Record{line("mail_send")}, "same", ""},
		{"one of two", []audit.Record{line("web_get"), line("web_post", at(1))}, "same", ""},
		{"by tools", []audit.Record{line("web_get"), line("files_read"), line("web_post", at(1))}, exfiltration, ""},
		{"by an upstream", []audit.Record{line("mail_list"), line("files_read"), line("mail_send", at(1))}, exfiltration, ""},
		{"by a list of resources of an upstream", []audit.Record{line("", method("resources/list"), func(r *audit.Record) { r.Upstream = "mail" }), line("files_read"), line("mail_send", at(1))}, exfiltration, ""},
		{"a list of tools describes", []audit.Record{line("", method("tools/list"), func(r *audit.Record) { r.Upstream = "mail" }), line("files_read"), line("mail_send", at(1))}, "same", ""},
		{"a ping has no text", []audit.Record{line("", method("ping"), func(r *audit.Record) { r.Upstream = "mail" }), line("files_read"), line("mail_send", at(1))}, "same", ""},
		{"of another caller", []audit.Record{line("web_get"), line("files_read"), line("web_post", at(1), by("other"))}, "same", ""},
		{"of another kind of caller", []audit.Record{line("web_get"), line("files_read"), line("web_post", at(1), func(r *audit.Record) { r.PrincipalKind = "ip" })}, "same", ""},
		{"of the same network", []audit.Record{line("web_get", func(r *audit.Record) { r.PrincipalKind, r.Principal = "ip", "2001:db8::1" }), line("files_read", func(r *audit.Record) { r.PrincipalKind, r.Principal = "ip", "2001:db8::2" }),
			line("web_post", at(1), func(r *audit.Record) { r.PrincipalKind, r.Principal = "ip", "2001:db8::3" })}, exfiltration, ""},
		{"in another session", []audit.Record{line("web_get", in("1")), line("files_read", in("1")), line("web_post", at(1), in("2"))}, exfiltration, ""},
		{"cleared", []audit.Record{line("web_get"), line("files_read"), line("", clears("private", "untrusted")), line("web_post", at(1))}, "same", ""},
		{"one label cleared", []audit.Record{line("web_get", sets("untrusted")), line("files_read", sets("private")), line("", clears("untrusted")), line("web_post", at(1))}, "same", "0.8=0.8"},
		{"another one remains", []audit.Record{line("web_get", sets("untrusted")), line("files_read", sets("private")), line("", clears("untrusted")), line("web_get", sets("untrusted")), line("web_post", at(1))}, exfiltration, "0.8=0.8"},
		{"another one may remain", []audit.Record{line("web_get"), line("files_read"), line("", clears("untrusted")), line("web_get"), line("web_post", at(1))}, unclear, ""},
		{"cleared for another caller", []audit.Record{line("web_get"), line("files_read"), line("", by("other"), clears("private", "untrusted")), line("web_post", at(1))}, exfiltration, ""},
		{"after the window", []audit.Record{line("web_get"), line("files_read", at(5)), line("web_post", at(10))}, "same", ""},
		{"a window that began anew", []audit.Record{line("web_get"), line("files_read", at(5)), line("web_get", at(9)), line("web_post", at(12))}, exfiltration, ""},
		{"approval", []audit.Record{line("files_read"), line("shell_x", at(1))}, "changed allow  -> approval ask-first", ""},
		{"before it was over", []audit.Record{line("files_read"), line("web_get", long(2*time.Minute)), line("web_post", at(1))}, unclear, ""},
		{"after it was over", []audit.Record{line("files_read"), line("web_get", long(2*time.Minute)), line("web_post", at(3))}, exfiltration, ""},
		{"an answer that failed", []audit.Record{line("files_read"), line("web_get", func(r *audit.Record) { r.ErrorKind = "upstream_unreachable" }), line("web_post", at(1))}, "same", ""},
		{"a stream that failed", []audit.Record{line("files_read"), line("web_get", func(r *audit.Record) { r.ErrorKind, r.Frames = "client_closed", 2 }), line("web_post", at(1))}, unclear, ""},
		{"a tool's error", []audit.Record{line("files_read"), line("web_get", func(r *audit.Record) { r.IsError = true }), line("web_post", at(1))}, exfiltration, ""},
		{"denied then and now", []audit.Record{line("files_read"), line("web_blocked", denied("no-web")), line("web_post", at(1))}, "same", ""},
		{"denied now", []audit.Record{line("files_read"), line("web_blocked"), line("web_post", at(1))}, "same", ""},
		{"denied then", []audit.Record{line("files_read"), line("web_get", denied("old")), line("web_post", at(1))}, unclear, ""},
		{"a policy of the control plane redacted", []audit.Record{line("files_read"), line("web_get", func(r *audit.Record) {
			r.Action, r.PoliciesFired = "redact", []audit.PolicyFired{{ID: "p", Action: "redact"}}
		}), line("web_post", at(1))}, exfiltration, ""},
		{"a task whose tool the gateway knew", []audit.Record{line("files_read"), line("", method("tasks/result")), line("web_post", at(1))}, unclear, ""},
		{"an answer to a question", []audit.Record{line("files_read"), line("web_get"), line("", at(1), func(r *audit.Record) { r.Method, r.RPC = "", "response" })},
			`undecided rule "no-exfiltration" looks at labels and at the call to which an answer belongs`, ""},
		{"an answer of a caller without labels", []audit.Record{line("", at(1), func(r *audit.Record) { r.Method, r.RPC = "", "response" })}, "same", ""},
		{"a URI", []audit.Record{line("", method("resources/read"))}, `undecided rule "keys" has a condition on the URI`, ""},
		{"a score that is not known", []audit.Record{line("x"), line("pay", at(1))}, `undecided rule "careful" has a condition on labels that uri_prefix or injection_score set`, ""},
		{"rules about other labels are decided", []audit.Record{line("x"), line("web_get"), line("files_read"), line("web_post", at(1))}, exfiltration, ""},
		{"a score under the same entry", []audit.Record{line("x", sets("suspicious")), line("pay", at(1))}, "changed allow  -> deny careful", "0.8=0.8"},
		{"no score under the same entry", []audit.Record{line("x"), line("pay", at(1))}, "same", "0.8=0.8"},
		{"a URI under the same entry", []audit.Record{line("x", sets("docs")), line("print", at(1))}, "changed allow  -> deny no-docs", "0.8=0.8"},
		{"a score under another entry", []audit.Record{line("x"), line("pay", at(1))}, `undecided rule "careful" has a condition on labels that uri_prefix or injection_score set`, "0.8=0.5"},
		{"an empty answer set nothing", []audit.Record{line("web_get"), line("files_read", sets("private")), line("web_post", at(1))}, "same", "0.8=0.8"},
		{"a tool that set nothing then", []audit.Record{line("web_get", sets("untrusted")), line("files_read"), line("web_post", at(1))}, exfiltration, "files_read=other"},
		{"an entry that is gone", []audit.Record{line("y_get", sets("untrusted")), line("files_read", sets("private")), line("web_post", at(1))}, "same", `"web_*"="y_*"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(labeled, "SCOPE", "principal", 1)
			r := load(t, text).NewReplay()
			if c.was != "" {
				old, changed, _ := strings.Cut(c.was, "=")
				file, found := config.Parse("was.yaml", []byte(strings.Replace(text, old, changed, 1)), nil)
				if file == nil || !strings.Contains(text, old) {
					t.Fatal(found)
				}
				r.RecordedUnder(&file.DataFlow)
			}
			var got []string
			for i := range c.lines {
				before := describe(r.Report())
				r.record(&c.lines[i])
				got = describe(r.Report())
				for _, g := range before {
					got = slices.Delete(got, slices.Index(got, g), slices.Index(got, g)+1)
				}
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The session owns the labels with scope session, and the caller where there is none.
func TestReplayFollowsSessions(t *testing.T) {
	r := load(t, strings.Replace(labeled, "SCOPE", "session", 1)).NewReplay()
	for _, c := range []struct{ session, tool string }{{"1", "web_get"}, {"1", "files_read"}, {"2", "web_post"}, {"", "web_post"}, {"1", "web_post"}} {
		rec := call(c.tool, "allow", "")
		rec.Kind, rec.Session = audit.KindRequest, c.session
		r.record(&rec)
	}
	if got := r.Report(); got.ChangedLines() != 1 || got.Same != 4 {
		t.Errorf("%+v", got)
	}
}

// recordedLines reads as the lines of an audit log: calls of as many callers that set labels, and every
// fifth a call that a label may restrict.
type recordedLines struct {
	n, callers int
	i          int
	rest       []byte
}

func (l *recordedLines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.i++; l.i > l.n {
			return 0, io.EOF
		}
		tool, sets := []string{"files_read", "web_get", "mail_list", "other", "web_post"}[l.i%5], []string{`,"sets":["private"]`, `,"sets":["untrusted"]`, `,"sets":["untrusted"]`, "", ""}[l.i%5]
		caller := l.i / 5
		if tool == "mail_list" || tool == "other" {
			caller = l.n - l.i // of nothing else
		}
		l.rest = fmt.Appendf(l.rest, `{"seq":%d,"ts":%q,"kind":"request","request_id":"0193a1b2-c3d4-7e5f-8a9b-%012d","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","action":"allow","labels":["private","untrusted"]%s,`+
			`"rpc":"request","method":"tools/call","tool":%q,"upstream":"shop","principal":"caller-%d","principal_kind":"key","key_id":"ci","client_ip":"192.0.2.1","dialect":"2025-06-18","status":200,"duration_ms":1.500,"bytes_in":300,"bytes_out":2000,`+
			`"spans":[{"stage":"policy_eval","duration_ms":0.002},{"stage":"provider","duration_ms":1.000}],"hash":"%064x"}`+"\n",
			l.i, time.Unix(1_790_000_000, int64(l.i)*int64(time.Millisecond)).UTC().Format(time.RFC3339Nano), l.i, sets, tool, caller%l.callers, l.i)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// millionVariable asks for 1,000,000 lines.
const millionVariable = "SVC_TEST_REPLAY"

// A log of any size is replayed in bounded memory, also one of ever new callers.
func TestReplayOfManyLines(t *testing.T) {
	n := 20_000
	if os.Getenv(millionVariable) != "" {
		n = 1_000_000
	}
	for _, callers := range []int{100, n} {
		t.Run(strconv.Itoa(callers)+" callers", func(t *testing.T) {
			r := load(t, strings.Replace(labeled, "SCOPE", "principal", 1)).NewReplay()
			began := time.Now()
			if err := r.Read(&recordedLines{n: n, callers: callers}); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%d lines of %d callers: %v, %d MiB of memory from the system", n, callers, took.Round(time.Millisecond), m.Sys>>20)
			report := r.Report()
			if report.ChangedLines() == 0 || report.Redecided+undecidedLines(report) != uint64(n) || report.Malformed > 0 {
				t.Errorf("%+v", report)
			}
			if os.Getenv(millionVariable) != "" && (took > time.Minute || m.Sys > 200<<20) { // otherwise other tests have memory, too
				t.Error("more than a minute, or more than 200 MiB")
			}
		})
	}
}

// Beyond the bound of callers the labels of others are not known, until those of some have ended.
func TestReplayOfTooManyCallers(t *testing.T) {
	r := load(t, strings.Replace(labeled, "SCOPE", "principal", 1)).NewReplay()
	ask := func(who, tool string, after time.Duration) {
		rec := call(tool, "allow", "")
		rec.Kind, rec.Principal, rec.Time = audit.KindRequest, who, rec.Time.Add(after)
		r.record(&rec)
	}
	for i := range maxFollowed {
		ask(strconv.Itoa(i), "web_get", 0)
	}
	ask("late", "web_get", time.Minute)
	ask("late", "files_read", time.Minute)
	if len(r.labels.callers) != maxFollowed {
		t.Fatalf("%d callers", len(r.labels.callers))
	}
	r.undecided = map[string]uint64{}
	ask("late", "web_post", 2*time.Minute)
	ask("any", "web_post", 2*time.Minute)
	if got := r.undecided[fmt.Sprintf(`rule "no-exfiltration" has a condition on labels, and more than %d callers had some at the same time`, maxFollowed)]; got != 2 {
		t.Errorf("%v", r.undecided)
	}
	ask("last", "web_get", 11*time.Minute)
	if len(r.labels.callers) != 1 {
		t.Errorf("%d callers after the window", len(r.labels.callers))
	}
}
