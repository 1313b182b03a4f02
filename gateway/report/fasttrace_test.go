package report

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"svc/gateway/audit"
)

// usual returns the JSON of the trace of a line made with the decoder, empty if
// there is none.
func usual(m *mapper, line []byte) (string, error) {
	var rec audit.Record
	if err := audit.Decode(line, &rec); err != nil {
		return "", err
	}
	if !m.wanted(&rec) {
		return "", nil
	}
	t := m.trace(&rec)
	b, err := t.AppendJSON(nil)
	return string(b), err
}

// glanced returns the result of appendTraceFast for a line.
func glanced(m *mapper, line []byte) (string, outcome) {
	var g audit.FastLine
	if !g.Read(line) {
		return "", needsDecode
	}
	b, became := m.appendTraceFast(nil, &g)
	return string(b), became
}

// recordsOf generates ordinary records with some unusual values.
func recordsOf(t *rapid.T) *audit.Record {
	name := rapid.OneOf(rapid.StringMatching(`[a-z_./ -]{1,20}`), rapid.SampledFrom([]string{"", "ci", "*", " a", "a ", "a\"b", "<b>", "日本", "a\x1bb", strings.Repeat("n", 250)}))
	duration := rapid.Map(rapid.OneOf(rapid.Int64Range(0, 5_000_000), rapid.Int64Range(-5, 1<<50)), func(us int64) time.Duration { return time.Duration(us) * time.Microsecond })
	rec := call("0193-" + rapid.StringMatching(`[0-9a-f]{4}`).Draw(t, "id"))
	rec.Kind, rec.Agent, rec.Environment, rec.Session = audit.KindRequest, "ci", "staging", "s-1"
	rec.Time = time.UnixMicro(rapid.Int64Range(1_700_000_000_000_000, 1_900_000_000_000_000).Draw(t, "time"))
	rec.Spans[0].Duration = duration.Draw(t, "span")
	odd := []func(){
		func() {
			rec.Time = time.UnixMicro(rapid.SampledFrom([]int64{0, 1_700_000_000_000_000, 1_700_000_000_500_000, 1_709_164_800_000_000, -1 << 55}).Draw(t, "odd time"))
		},
		func() {
			rec.Kind = rapid.SampledFrom([]audit.Kind{audit.KindFrame, audit.KindOpen, audit.KindSummary}).Draw(t, "kind")
		},
		func() { rec.RPC = rapid.SampledFrom([]string{audit.RPCNotification, ""}).Draw(t, "rpc") },
		func() { rec.RequestID = name.Draw(t, "odd id") },
		func() { rec.Method = rapid.SampledFrom([]string{"tools/list", "ping", ""}).Draw(t, "method") },
		func() {
			rec.Action = rapid.SampledFrom([]string{"deny", "redact", "rate_limit_blocked", ""}).Draw(t, "action")
		},
		func() { rec.RuleID = rapid.SampledFrom([]string{"r1", "default_deny", `rule \ two`}).Draw(t, "rule") },
		func() { rec.ErrorKind = "timeout" },
		func() { rec.Tool = name.Draw(t, "tool") },
		func() { rec.Principal, rec.Agent = name.Draw(t, "principal"), "" },
		func() { rec.Agent = name.Draw(t, "agent") },
		func() { rec.Environment = name.Draw(t, "environment") },
		func() { rec.Session = name.Draw(t, "session") },
		func() { rec.Status = rapid.SampledFrom([]int{202, 400, 403, 502, 0, 99, 1000}).Draw(t, "status") },
		func() { rec.IsError = true },
		func() { rec.Duration = duration.Draw(t, "duration") },
		func() { rec.BytesIn, rec.Frames = rapid.Int64().Draw(t, "in"), 3 },
		func() { rec.InjectionScore = rapid.Float64Range(0, 1).Draw(t, "score") },
		func() { rec.PIIDetected = []string{"EMAIL"} },
		func() { rec.PoliciesFired = []audit.PolicyFired{{ID: "p", Name: "n", Action: "block"}} },
		func() { rec.QualityScores = []audit.QualityScore{{Scorer: "s", Score: 0.5}} },
		func() {
			rec.Dialect = rapid.SampledFrom([]string{"legacy", "2026-07-28", "2026\\", ""}).Draw(t, "dialect")
		},
		func() { rec.StripApplied, rec.Stripped = true, rapid.IntRange(0, 3).Draw(t, "stripped") },
		func() { rec.Spans = nil },
		func() { rec.ClientName, rec.ClientVersion = name.Draw(t, "client"), name.Draw(t, "client version") },
		func() {
			for range rapid.IntRange(1, 9).Draw(t, "spans") {
				rec.Spans = append(rec.Spans, audit.Span{Stage: name.Draw(t, "stage"), Duration: duration.Draw(t, "span")})
			}
		},
	}
	for range rapid.IntRange(0, 3).Draw(t, "odd things") {
		rapid.SampledFrom(odd).Draw(t, "odd")()
	}
	return rec
}

// linesOf returns the lines that a log writes for records.
func linesOf(t interface{ Fatal(...any) }, dir string, recs []*audit.Record) [][]byte {
	var c audit.Config
	c.SetDefaults()
	c.Path, c.Fsync = dir+"/audit.jsonl", audit.FsyncNever
	l, err := audit.Open(c, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := l.Write(context.Background(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	in := audit.NewReader(c.Path, audit.Position{})
	defer in.Close()
	var lines [][]byte
	for {
		line, err := in.Next()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, append([]byte(nil), line.Bytes...))
	}
}

// The copied trace is, byte for byte, the result of decoding and encoding the
// line; and ordinary lines are copied.
func TestQuickTracesAreTheUsualOnes(t *testing.T) {
	m := &mapper{Config{Environment: "staging", Agents: map[string]string{"ci": "builder"}}}
	outcomes := map[outcome]int{}
	rapid.Check(t, func(rt *rapid.T) {
		recs := make([]*audit.Record, 40)
		for i := range recs {
			recs[i] = recordsOf(rt)
		}
		for _, line := range linesOf(rt, t.TempDir(), recs) {
			want, err := usual(m, line)
			if err != nil {
				rt.Fatalf("%s: %v", line, err)
			}
			got, became := glanced(m, line)
			outcomes[became]++
			if became != needsDecode && got != want {
				rt.Fatalf("line  %s\nquick %s\nusual %s", line, got, want)
			}
		}
	})
	for _, o := range []outcome{needsDecode, skip, mapped} {
		if outcomes[o] < 20 {
			t.Errorf("of all lines %v became %d", outcomes, o)
		}
	}
	line := linesOf(t, t.TempDir(), []*audit.Record{func() *audit.Record {
		rec := call(id(1))
		rec.Agent, rec.Environment, rec.Session, rec.TraceID = "ci", "staging", "s-1", strings.Repeat("ab", 16)
		rec.Dialect, rec.StripApplied = "legacy", true
		return rec
	}()})[1]
	if !strings.Contains(string(line), `"dialect":"legacy"`) || !strings.Contains(string(line), `"stripped":0`) {
		t.Errorf("line %s", line)
	}
	if _, became := glanced(m, line); became != mapped {
		t.Errorf("an ordinary line became %d: %s", became, line)
	}
}

// For any line that both ways accept, the results are equal.
func FuzzQuickTraces(f *testing.F) {
	rec := call(id(1))
	rec.Agent, rec.Environment, rec.InjectionScore = "ci", "staging", 0.25
	for _, line := range linesOf(f, f.TempDir(), []*audit.Record{rec, opening(id(2))}) {
		f.Add(line)
	}
	f.Add([]byte(fmt.Sprintf(`{"seq":1,"ts":"2026-02-29T00:00:00.000000Z","kind":"request","request_id":"a","rpc":"request","method":"x","agent":"a","environment":"e","status":200,"duration_ms":%s}`, "1.000")))
	m := &mapper{Config{Environment: "staging"}}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, became := glanced(m, line)
		if became == needsDecode {
			return
		}
		if want, err := usual(m, line); err == nil && got != want {
			t.Fatalf("line  %q\nquick %s\nusual %s", line, got, want)
		}
	})
}
