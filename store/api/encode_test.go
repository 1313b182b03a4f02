package api

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sameJSON checks that AppendJSON and encoding/json return the same bytes or
// both an error.
func sameJSON(t interface {
	Helper()
	Fatalf(string, ...any)
}, b *TraceBatch) {
	t.Helper()
	want, wantErr := json.Marshal(b)
	got, err := b.AppendJSON([]byte("before"))
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%+v: error %v, encoding/json says %v", b, err, wantErr)
	}
	if err != nil {
		want = nil
	}
	if string(got) != "before"+string(want) {
		t.Fatalf("got  %s\nwant before%s", got, want)
	}
}

// TestAppendJSONKnowsEveryField: a new field of a trace, or of a part of one,
// that the encoder does not encode fails here.
func TestAppendJSONKnowsEveryField(t *testing.T) {
	var all TraceInput
	sameJSON(t, &TraceBatch{Traces: []TraceInput{all}})
	fields := reflect.ValueOf(&all).Elem()
	for i := range fields.NumField() {
		var one TraceInput
		for _, v := range []reflect.Value{fields.Field(i), reflect.ValueOf(&one).Elem().Field(i)} {
			fill(t, v)
		}
		sameJSON(t, &TraceBatch{Traces: []TraceInput{one}})
		sameJSON(t, &TraceBatch{Traces: []TraceInput{all, one}})
	}
}

// fill sets a value, and everything within it, to something other than zero.
func fill(t *testing.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 3, 4, 5, 6, 7, 89000, time.FixedZone("", 5400))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.125)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0))
		fill(t, v.Index(1))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

func TestAppendJSONOfEmptyBatches(t *testing.T) {
	sameJSON(t, &TraceBatch{})
	sameJSON(t, &TraceBatch{Traces: []TraceInput{}})
}

func TestAppendJSONErrsOnWhatJSONCannotSay(t *testing.T) {
	nan := math.NaN()
	for _, one := range []TraceInput{
		{DurationMs: nan}, {DurationMs: math.Inf(1)}, {CostUSD: &nan}, {InjectionScore: nan},
		{CreatedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 24*3600))},
		{Spans: []Span{{DurationMs: nan}}}, {QualityScores: []QualityScore{{Score: math.Inf(-1)}}},
	} {
		b := &TraceBatch{Traces: []TraceInput{{Status: "success"}, one}}
		if _, err := b.AppendJSON(nil); err == nil {
			t.Errorf("%+v is encoded", one)
		}
		sameJSON(t, b)
	}
}

func TestAppendJSONIsEncodingJSON(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,40}`), rapid.SampledFrom([]string{
		"", "\x00", "<b>&", "\u2028\u2029", "\xff\xfe", "a\"b\\c", "tab\tnew\n", "\x7f", "日本",
	}))
	number := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
		0, math.Copysign(0, -1), 1e-6, 9.99e-7, 1e21, 1e20, 0.1, 1234.567, math.MaxFloat64, math.SmallestNonzeroFloat64,
	}))
	rapid.Check(t, func(t *rapid.T) {
		b := &TraceBatch{}
		for range rapid.IntRange(0, 3).Draw(t, "traces") {
			one := TraceInput{
				ID: text.Draw(t, "id"), AgentID: text.Draw(t, "agentId"), AgentName: text.Draw(t, "agentName"),
				Status: text.Draw(t, "status"), Environment: text.Draw(t, "environment"), SessionID: text.Draw(t, "sessionId"),
				ModelProvider: text.Draw(t, "provider"), ModelName: text.Draw(t, "model"),
				InputTokens: rapid.Int64().Draw(t, "in"), OutputTokens: rapid.Int64().Draw(t, "out"),
				CacheReadTokens: rapid.Int64().Draw(t, "cacheRead"), CacheCreationTokens: rapid.Int64().Draw(t, "cacheCreation"),
				DurationMs: number.Draw(t, "duration"), InjectionScore: number.Draw(t, "injection"),
				PIIDetected: rapid.SliceOfN(text, 0, 3).Draw(t, "pii"), ToolName: text.Draw(t, "tool"),
				CreatedAt: time.Unix(rapid.Int64Range(-1<<36, 1<<38).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")),
				Blocked:   rapid.Bool().Draw(t, "blocked"),
			}
			if rapid.Bool().Draw(t, "told") {
				one.RequestID, one.Principal, one.RuleID = text.Draw(t, "request"), text.Draw(t, "principal"), text.Draw(t, "rule")
				one.Client.Name, one.Client.Version = text.Draw(t, "client"), text.Draw(t, "version")
			}
			if rapid.Bool().Draw(t, "priced") {
				cost := number.Draw(t, "cost")
				one.CostUSD = &cost
			}
			for range rapid.IntRange(0, 2).Draw(t, "parts") {
				one.Spans = append(one.Spans, Span{text.Draw(t, "stage"), number.Draw(t, "ms")})
				one.QualityScores = append(one.QualityScores, QualityScore{text.Draw(t, "scorer"), number.Draw(t, "score")})
				one.PoliciesFired = append(one.PoliciesFired, PolicyFired{text.Draw(t, "pid"), text.Draw(t, "name"), text.Draw(t, "action")})
			}
			b.Traces = append(b.Traces, one)
		}
		sameJSON(t, b)
	})
}

// One batch of the size that a gateway sends, with both encoders.
func BenchmarkBatch(b *testing.B) {
	batch := &TraceBatch{Traces: make([]TraceInput, 500)}
	for i := range batch.Traces {
		batch.Traces[i] = TraceInput{
			ID: "01934b5c-0000-7000-8000-000000000000", AgentName: "agent", Status: "success", Environment: "production",
			DurationMs: 1.234, CreatedAt: time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC), ToolName: "read_file",
			Spans: []Span{{"policy_eval", 0.001}, {"provider", 1.2}},
		}
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = batch.AppendJSON(buf[:0])
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(batch)
		}
	})
}
