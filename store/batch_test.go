package store

import "testing"

// TestBatchKeys checks that the key of a batch depends on both its id and the ids of
// its traces.
func TestBatchKeys(t *testing.T) {
	of := func(id string, traces ...string) string {
		b := Batch{ID: id}
		for _, trace := range traces {
			b.Traces = append(b.Traces, Trace{ID: trace})
		}
		return b.Key()
	}
	for _, id := range []string{"", "a"} {
		for _, traces := range [][]string{{"1", "2"}, {"", ""}} {
			if first, again := of(id, traces...), of(id, traces...); first != again {
				t.Errorf("batch %q of %q has the keys %s and %s", id, traces, first, again)
			}
		}
	}
	known := map[string]int{}
	for i, key := range []string{of("a", "1", "2"), of("b", "1", "2"), of("", "1", "2"), of("a", "1", "3"), of("a", "12"), of("a", "1"),
		of("a"), of("", "a"), of("a", ""), of("a", "", ""), of("a1", "2")} {
		if before, ok := known[key]; ok {
			t.Errorf("batches %d and %d have the key %s", before, i, key)
		}
		known[key] = i
	}
	b := Batch{ID: "a"}
	if first, again := b.TraceID(0), b.TraceID(0); first != again || first == b.TraceID(1) || len(b.TraceID(1)) > MaxTraceID {
		t.Errorf("trace ids %s, %s", b.TraceID(0), b.TraceID(1))
	}
	if (&Batch{}).TraceID(0) != "" {
		t.Error("a batch without an id names its traces")
	}
}
