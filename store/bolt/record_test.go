package bolt

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svc/store"
)

// TestRecordRoundTrip encodes random traces and decodes them again.
func TestRecordRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.StringN(0, 20, 40), rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.StringMatching(`[0-9a-f]{32}`), rapid.StringMatching(`[0-9A-F]{32}`))
	rapid.Check(t, func(t *rapid.T) {
		want := store.Trace{
			ID: text.Draw(t, "id"), SessionID: text.Draw(t, "session"), ToolName: text.Draw(t, "tool"),
			Status: store.TraceSuccess, InputTokens: rapid.Int64Range(0, math.MaxInt64).Draw(t, "in"),
			OutputTokens: rapid.Int64Range(0, math.MaxInt64).Draw(t, "out"), Cost: store.NanoUSD(rapid.Int64Min(0).Draw(t, "cost")),
			Duration: time.Duration(rapid.Int64Min(0).Draw(t, "duration")), InjectionScore: rapid.Float64Range(0, 1).Draw(t, "score"),
			CreatedAt:   time.Unix(0, rapid.Int64Min(0).Draw(t, "at")).UTC(),
			PIIDetected: rapid.SliceOfN(text, 0, 4).Draw(t, "pii"),
		}
		if rapid.Bool().Draw(t, "details") {
			want.RequestID = rapid.OneOf(text, rapid.Just(want.ID)).Draw(t, "request")
			want.Principal, want.RuleID, want.Reason = text.Draw(t, "principal"), text.Draw(t, "rule"), text.Draw(t, "reason")
			want.ErrorKind = text.Draw(t, "kind")
			want.CacheReadTokens, want.CacheCreationTokens = rapid.Int64Min(0).Draw(t, "read"), rapid.Int64Min(0).Draw(t, "creation")
		}
		if rapid.Bool().Draw(t, "client") {
			want.ClientName, want.ClientVersion = text.Draw(t, "client name"), text.Draw(t, "client version")
		}
		if rapid.Bool().Draw(t, "approval") {
			want.Approval = store.TraceApproval{Status: "granted", ID: text.Draw(t, "approval id"), By: text.Draw(t, "approved by")}
		}
		if rapid.Bool().Draw(t, "labels") {
			want.Labels, want.Sets = rapid.SliceOfN(text, 1, 3).Draw(t, "of the caller"), rapid.SliceOfN(text, 1, 3).Draw(t, "sets")
		}
		if rapid.Bool().Draw(t, "error") {
			want.Status, want.Blocked = store.TraceError, rapid.Bool().Draw(t, "blocked")
		}
		for range rapid.IntRange(0, 3).Draw(t, "lists") {
			want.PoliciesFired = append(want.PoliciesFired, store.PolicyFired{ID: text.Draw(t, "p"), Name: text.Draw(t, "n"), Action: text.Draw(t, "a")})
			want.QualityScores = append(want.QualityScores, store.QualityScore{Scorer: text.Draw(t, "s"), Score: rapid.Float64().Draw(t, "v")})
			want.Spans = append(want.Spans, store.Span{Stage: rapid.OneOf(text, rapid.SampledFrom(stages[:])).Draw(t, "stage"), Duration: time.Duration(rapid.Int64Min(0).Draw(t, "d"))})
		}
		if len(want.PIIDetected) == 0 {
			want.PIIDetected = nil
		}
		numbers := refs{agent: 7, env: 1 << 31, model: 0, name: 9}
		rec := appendRecord([]byte("before"), &want)[len("before"):]
		seal(rec, numbers)
		got, r, err := decodeRecord(rec, true)
		if err != nil || r != numbers {
			t.Fatalf("%v, %+v", err, r)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		id, err := recordID(rec)
		if err != nil || string(id) != string(packedKey(want.ID)) {
			t.Fatalf("id %x, want %x, %v", id, packedKey(want.ID), err)
		}
		// Any flipped bit is detected.
		at := rapid.IntRange(0, len(rec)-1).Draw(t, "flip")
		rec[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, _, err := decodeRecord(rec, true); err == nil {
			t.Fatalf("byte %d of %d was flipped and nobody noticed", at, len(rec))
		}
	})
}

// FuzzDecodeRecord decodes arbitrary bytes with a corrected checksum, so that the
// decoder itself is tested.
func FuzzDecodeRecord(f *testing.F) {
	m := newTraceMaker(benchStart, time.Second, false)
	for range 5 {
		tr := m.next()
		rec := appendRecord(nil, &tr)
		seal(rec, refs{agent: 1, env: 2, model: 3, name: 4})
		f.Add(rec)
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		if len(rec) >= recFixed+4 {
			rec[0] = recVersion
			seal(rec, refs{})
		}
		tr, _, err := decodeRecord(rec, true)
		if err == nil && len(tr.PIIDetected)+len(tr.PoliciesFired)+len(tr.QualityScores)+len(tr.Spans) > 4*store.MaxTraceList {
			t.Fatal("lists beyond their bound")
		}
		_, _, _ = decodeRecord(rec, false)
		_, _ = recordID(rec)
	})
}

// FuzzBlock runs the checks of a block on arbitrary bytes.
func FuzzBlock(f *testing.F) {
	f.Add([]byte(newBlock(5)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := asBlock(raw)
		if err != nil {
			return
		}
		var places [blockCap]sortKey
		(&filter{}).passing(b, 1, &places)
		b.recomputeBounds()
	})
}
