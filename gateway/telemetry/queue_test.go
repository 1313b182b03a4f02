package telemetry

import (
	"bytes"
	"fmt"
	"testing"
)

// Records are taken whole, in the order of each shard, for any size of a batch;
// records that do not fit are counted, and released space is reused.
func TestQueue(t *testing.T) {
	q := newQueue()
	record := func(i int) []byte { return fmt.Appendf(nil, "<%d:%s>", i, bytes.Repeat([]byte("x"), i%100)) }
	next, want := 0, 0 // of one shard
	of := SpanID{1: 3}
	put := func(n int) {
		for range n {
			q.push(of, record(next))
			next++
		}
	}
	get := func(room, n int) {
		t.Helper()
		data, taken := q.take(nil, room)
		var expect []byte
		for range taken {
			expect = append(expect, record(want)...)
			want++
		}
		if taken != n || !bytes.Equal(data, expect) {
			t.Fatalf("took %d, want %d: %.200s\nwant %.200s", taken, n, data, expect)
		}
	}
	get(10, 0)
	put(3)
	get(2, 2)
	put(4)
	get(10, 5)
	for range 5 { // the space of taken records is reused
		put(shardSpans)
		if q.admits(of) || q.len() != shardSpans {
			t.Fatal("a full shard has room")
		}
		get(300, 300)
		put(300)
		get(shardSpans, shardSpans)
	}
	if n := q.dropped.Load(); n != 5 {
		t.Errorf("%d dropped", n)
	}
	before := len(record(99))
	big := make([]byte, shardBytes-before)
	q.push(of, big)
	q.push(of, record(99))
	q.push(of, []byte("one byte too many"))
	if _, n := q.take(nil, 10); n != 2 || q.dropped.Load() != 6 {
		t.Errorf("took %d, %d dropped", n, q.dropped.Load())
	}
}
