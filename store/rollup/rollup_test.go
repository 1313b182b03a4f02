package rollup

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var observations = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Observation {
	return Observation{
		At:    time.Unix(rapid.Int64Range(0, 3*86400).Draw(t, "at"), 0),
		Agent: rapid.Uint32Range(1, 4).Draw(t, "agent"), Model: rapid.Uint32Range(0, 2).Draw(t, "model"), Env: rapid.Uint32Range(0, 2).Draw(t, "env"),
		Error: rapid.Bool().Draw(t, "error"), Blocked: rapid.Bool().Draw(t, "blocked"),
		InputTokens: rapid.Int64Range(0, 1000).Draw(t, "in"), OutputTokens: rapid.Int64Range(0, 1000).Draw(t, "out"),
		Cost: rapid.Int64Range(0, 1e12).Draw(t, "cost"), Duration: time.Duration(rapid.Int64Min(0).Draw(t, "duration") % int64(time.Hour)),
	}
}), 0, 60)

// maxRelativeError bounds the relative difference between a quantile and the duration
// with its rank.
const maxRelativeError = 1.0 / 128

// rowStore stores entries as a backend does.
type rowStore map[Key][]byte

func (r rowStore) merge(t *rapid.T, entries []Entry) {
	for i := range entries {
		row, err := AppendMerged(nil, r[entries[i].Key], &entries[i].Partial)
		if err != nil {
			t.Fatal(err)
		}
		r[entries[i].Key] = row
	}
}

// TestMergeOrder merges batches in two orders, one by one and combined: the rows are
// identical bytes.
func TestMergeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := rapid.SliceOfN(observations, 1, 5).Draw(t, "batches")
		forward, backward, combined := rowStore{}, rowStore{}, rowStore{}
		var lists [][]Entry
		for _, b := range batches {
			forward.merge(t, Compute(b))
			lists = append(lists, Compute(b))
		}
		for _, b := range slices.Backward(batches) {
			backward.merge(t, Compute(b))
		}
		all := Combine(lists...)
		if !slices.IsSortedFunc(all, func(a, b Entry) int { return a.Key.Compare(b.Key) }) {
			t.Fatal("combined entries are not in order")
		}
		combined.merge(t, all)
		if diff := cmp.Diff(forward, backward); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(forward, combined); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestTablesAgree sums up each table: all sums are equal.
func TestTablesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		obs := observations.Draw(t, "observations")
		var sums [NumTables]Partial
		entries := Compute(obs)
		if !slices.IsSortedFunc(entries, func(a, b Entry) int { return a.Key.Compare(b.Key) }) {
			t.Fatal("entries are not in order")
		}
		for i := range entries {
			sums[entries[i].Key.Table].Merge(&entries[i].Partial)
		}
		for table := range NumTables {
			if diff := cmp.Diff(sums[Minute], sums[table]); diff != "" {
				t.Fatalf("%s: %s", table, diff)
			}
			if int(sums[table].Traces) != len(obs) {
				t.Fatalf("%s has %d of %d", table, sums[table].Traces, len(obs))
			}
		}
	})
}

// TestQuantiles compares nearest-rank quantiles with the sorted durations.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.SliceOfN(rapid.Map(rapid.Float64Range(0, 43), func(f float64) time.Duration {
			return time.Duration(math.Exp(f)) // uniform over all orders of magnitude
		}), 1, 200).Draw(t, "durations")
		var obs []Observation
		for _, d := range durations {
			obs = append(obs, Observation{At: time.Unix(60, 0), Agent: 1, Duration: d})
		}
		var sum Sum
		for _, e := range Compute(obs) {
			if e.Key.Table == Hour {
				if err := sum.Add(e.Partial.Append(nil), true); err != nil {
					t.Fatal(err)
				}
			}
		}
		slices.Sort(durations)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.95, 0.99, 1} {
			want := durations[max(int(math.Ceil(q*float64(len(durations)))), 1)-1]
			got := sum.Quantile(q)
			if got < durations[0] || got > durations[len(durations)-1] {
				t.Fatalf("q %v is %v, durations are %v to %v", q, got, durations[0], durations[len(durations)-1])
			}
			if low := sum.QuantileLow(q); low > want || low > got {
				t.Fatalf("q %v is at least %v, but it is %v and reported as %v", q, low, want, got)
			}
			if d := math.Abs(float64(got - want)); d > maxRelativeError*float64(want) {
				t.Fatalf("q %v is %v, want %v: off by %.3f %%", q, got, want, 100*d/float64(want))
			}
		}
	})
	if q := new(Sum).Quantile(0.5); q != 0 {
		t.Errorf("a quantile of nothing is %v", q)
	}
}

// TestBins checks the width of every bin and the edges between them.
func TestBins(t *testing.T) {
	for i := range uint16(NumBins) {
		v := binValue(i)
		if got := BinOf(v); got != i {
			t.Fatalf("the value %d of bin %d is in bin %d", v, i, got)
		}
		if i > 0 && v <= binValue(i-1) {
			t.Fatalf("bin %d is not above the one before", i)
		}
	}
	for _, d := range []time.Duration{-5, 0, 1, 127, 128, 129, math.MaxInt64 - 1, math.MaxInt64} {
		v := binValue(BinOf(d))
		if want := max(d, 0); math.Abs(float64(v-want)) > maxRelativeError*float64(want) {
			t.Errorf("%d stands as %d", d, v)
		}
	}
}

func TestPlan(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("2006-01-02 15:04:05", s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, row := range []struct {
		name string
		q    Query
		want []Table
		from string
		to   string
	}{
		{"within a minute", Query{From: at("2026-05-01 10:20:05"), To: at("2026-05-01 10:20:06")}, []Table{Minute}, "2026-05-01 10:20:00", "2026-05-01 10:21:00"},
		{"an hour across two", Query{From: at("2026-05-01 10:20:05"), To: at("2026-05-01 11:20:05")}, []Table{Minute, Minute}, "2026-05-01 10:20:00", "2026-05-01 11:21:00"},
		{"one whole hour", Query{From: at("2026-05-01 10:00:00"), To: at("2026-05-01 11:00:00"), By: Model}, []Table{HourModel}, "2026-05-01 10:00:00", "2026-05-01 11:00:00"},
		{"one whole day", Query{From: at("2026-05-01 00:00:00"), To: at("2026-05-02 00:00:00"), By: Agent}, []Table{DayAgent}, "2026-05-01 00:00:00", "2026-05-02 00:00:00"},
		{"a month and odd ends", Query{From: at("2026-05-01 10:20:05"), To: at("2026-05-31 11:20:05")}, []Table{Minute, HourEnvironment, DayEnvironment, HourEnvironment, Minute}, "2026-05-01 10:20:00", "2026-05-31 11:21:00"},
		{"one agent", Query{From: at("2026-05-01 10:00:00"), To: at("2026-05-31 11:00:00"), OneAgent: true}, []Table{HourAgent, DayAgent, HourAgent}, "2026-05-01 10:00:00", "2026-05-31 11:00:00"},
		{"one agent by model", Query{From: at("2026-05-01 10:00:00"), To: at("2026-05-31 11:00:00"), OneAgent: true, By: Model}, []Table{Hour}, "2026-05-01 10:00:00", "2026-05-31 11:00:00"},
		{"minutes are gone", Query{From: at("2026-05-01 10:20:05"), To: at("2026-05-31 11:20:05"), MinutesFrom: at("2026-05-31 09:00:00")}, []Table{HourEnvironment, DayEnvironment, HourEnvironment, Minute}, "2026-05-01 10:00:00", "2026-05-31 11:21:00"},
		{"names have no minutes", Query{From: at("2026-05-01 10:20:05"), To: at("2026-05-01 10:20:06"), By: Tool}, []Table{HourTool}, "2026-05-01 10:00:00", "2026-05-01 11:00:00"},
		{"a month of names", Query{From: at("2026-05-01 10:20:05"), To: at("2026-05-31 11:20:05"), By: Client}, []Table{HourClient, DayClient, HourClient}, "2026-05-01 10:00:00", "2026-05-31 12:00:00"},
		{"nothing", Query{From: at("2026-05-02 00:00:00"), To: at("2026-05-01 00:00:00")}, nil, "2026-05-02 00:00:00", "2026-05-02 00:00:00"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := NewPlan(row.q)
			var got []Table
			for _, r := range p.Ranges {
				got = append(got, r.Table)
			}
			if !slices.Equal(got, row.want) || !p.From.Equal(at(row.from)) || !p.To.Equal(at(row.to)) {
				t.Errorf("%v from %v to %v, want %v from %s to %s", got, p.From, p.To, row.want, row.from, row.to)
			}
		})
	}
}

// TestPlanCovers checks the ranges of random plans: they are adjacent, do not overlap,
// and cover the window.
func TestPlanCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Query{From: time.Unix(rapid.Int64Range(0, 1e7).Draw(t, "from"), rapid.Int64Range(0, 1).Draw(t, "nanos")),
			By: rapid.SampledFrom([]Dimension{None, Agent, Model, Environment, Tool, Client}).Draw(t, "by"), OneAgent: rapid.Bool().Draw(t, "one agent")}
		q.To = q.From.Add(time.Duration(rapid.Int64Range(0, 1e7).Draw(t, "seconds")) * time.Second)
		if rapid.Bool().Draw(t, "dropped") {
			q.MinutesFrom = time.Unix(rapid.Int64Range(1, 2e7).Draw(t, "kept"), 0)
		}
		p := NewPlan(q)
		if p.From.After(q.From) || p.To.Before(q.To) {
			t.Fatalf("%v to %v does not cover %v to %v", p.From, p.To, q.From, q.To)
		}
		at := p.From
		for _, r := range p.Ranges {
			if from := r.Table.Level().Start(r.From); !from.Equal(at) || r.From >= r.To {
				t.Fatalf("range %+v begins at %v, not at %v", r, from, at)
			}
			if r.Table == Minute && !q.MinutesFrom.IsZero() && at.Before(q.MinutesFrom.Truncate(time.Hour)) {
				t.Fatalf("minutes at %v are gone", at)
			}
			at = r.Table.Level().Start(r.To)
		}
		if !at.Equal(p.To) {
			t.Fatalf("ends at %v, not at %v", at, p.To)
		}
	})
}

// TestAppendMergedIsMerge merges encoded rows of random bins and compares the result
// with the sum of the decoded ones, byte for byte.
func TestAppendMergedIsMerge(t *testing.T) {
	partials := rapid.Custom(func(t *rapid.T) Partial {
		counts := rapid.MapOfN(rapid.Uint16Range(0, NumBins-1), rapid.Uint64Range(1, 1000), 0, 40).Draw(t, "bins")
		p := Partial{Traces: int64(len(counts))}
		for index, n := range counts {
			p.Bins = append(p.Bins, Bin{index, n})
		}
		p.Bins = sumBins(p.Bins)
		if p.Traces > 0 {
			p.Min = rapid.Int64Range(0, 1e15).Draw(t, "min")
			p.Max = p.Min + rapid.Int64Range(0, 1e15).Draw(t, "distance")
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		stored, more := partials.Draw(t, "stored"), partials.Draw(t, "more")
		if rapid.Bool().Draw(t, "bins in common") {
			more.Bins = sumBins(slices.Concat(more.Bins, stored.Bins[:len(stored.Bins)/2]))
		}
		got, err := AppendMerged([]byte("before"), stored.Append(nil), &more)
		stored.Merge(&more)
		if want := stored.Append([]byte("before")); err != nil || string(got) != string(want) {
			t.Fatalf("%x, %v; want %x", got, err, want)
		}
	})
}

// FuzzDecode decodes arbitrary bytes: the decoders agree, and a partial that they
// accept can be merged and encoded again.
func FuzzDecode(f *testing.F) {
	p := Partial{Traces: 3, Errors: 1, Cost: 1 << 40, Duration: 77, Bins: []Bin{{0, 1}, {300, 2}}}
	f.Add(p.Append(nil))
	f.Add([]byte{version + 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		var sum Sum
		if addErr := sum.Add(data, true); (addErr == nil) != (err == nil) {
			t.Fatalf("Decode says %v, Add says %v", err, addErr)
		}
		one := Partial{Traces: 1, Bins: []Bin{{5, 1}}}
		merged, mergeErr := AppendMerged(nil, data, &one)
		if len(data) > 0 && (mergeErr == nil) != (err == nil) {
			t.Fatalf("Decode says %v, AppendMerged says %v", err, mergeErr)
		}
		if err != nil {
			return
		}
		if len(merged) > len(data)+MaxGrowth(&one) {
			t.Fatalf("%d bytes grew to %d", len(data), len(merged))
		}
		again := p.Append(nil)
		if q, err := Decode(again); err != nil || !cmp.Equal(p, q) {
			t.Fatalf("%v: %+v, want %+v", err, q, p)
		}
	})
}

func BenchmarkCompute500(b *testing.B) {
	obs := make([]Observation, 500)
	for i := range obs {
		obs[i] = Observation{At: time.Unix(int64(i/100), 0), Agent: uint32(i%200) + 1, Model: uint32(i % 6), Env: uint32(i % 3), Duration: time.Duration(i*i) * time.Microsecond}
	}
	for b.Loop() {
		Compute(obs)
	}
}

// BenchmarkAppendMerged merges a batch's few durations into a row with hundreds.
func BenchmarkAppendMerged(b *testing.B) {
	observe := func(n int) Partial {
		obs := make([]Observation, n)
		for i := range obs {
			obs[i] = Observation{At: time.Unix(0, 0), Agent: 1, Duration: time.Duration(20+i*i*500*500/n/n) * time.Millisecond}
		}
		return Compute(obs)[0].Partial
	}
	stored, batch := observe(500), observe(3)
	row := stored.Append(nil)
	dst := make([]byte, 0, len(row)+MaxGrowth(&batch))
	for b.Loop() {
		if _, err := AppendMerged(dst, row, &batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMerge merges a row of 500 durations into a sum, and reports its size.
func BenchmarkMerge(b *testing.B) {
	obs := make([]Observation, 500)
	for i := range obs {
		obs[i] = Observation{At: time.Unix(0, 0), Agent: 1, Duration: time.Duration(20+i*i) * time.Millisecond}
	}
	row := Compute(obs)[0].Partial.Append(nil)
	b.ReportMetric(float64(len(row)), "bytes")
	for b.Loop() {
		var s Sum
		if err := s.Add(row, true); err != nil {
			b.Fatal(err)
		}
	}
}

// TestExpandFinest expands the finest entries of several batches together: the entries equal
// those of the batches themselves.
func TestExpandFinest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, two := observations.Draw(t, "one"), observations.Draw(t, "two")
		later := Expand(slices.Concat(Finest(two), Finest(one)))
		if diff := cmp.Diff(Combine(Compute(one), Compute(two)), later, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
