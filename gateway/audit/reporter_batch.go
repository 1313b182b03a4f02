package audit

import (
	"bytes"
	"time"

	"svc/store/api"
)

// batchStart is the beginning of the JSON of an api.TraceBatch.
const batchStart = `{"traces":[`

// batch is the content of one request: traces, and the position after their audit lines.
type batch struct {
	json  []byte // batchStart, and the traces separated by commas
	ends  []int  // offset of the end of each trace
	lines int    // size of their lines in bytes
	since time.Time
	start Position // behind the lines of the batch before
	after Position
	// answer is that to the last request with traces of the batch.
	answer *api.IngestStore
	// lent is set when a request with the JSON failed: its transport may still read the
	// JSON, which is therefore not modified.
	lent bool
}

// newBatch returns an empty batch that starts at a position. It reuses the buffers of the
// previous batch.
func newBatch(after Position, before batch) batch {
	if before.lent {
		before = batch{}
	}
	return batch{json: append(before.json[:0], batchStart...), ends: before.ends[:0], start: after, after: after}
}

func (b *batch) len() int { return len(b.ends) }

// own replaces the JSON by a copy if a failed request may still read it.
func (b *batch) own() {
	if b.lent {
		b.json, b.lent = bytes.Clone(b.json), false
	}
}

// room returns the JSON with the separator before the next trace. The caller appends the
// trace and passes the result to took.
func (b *batch) room() []byte {
	b.own()
	if len(b.ends) > 0 {
		return append(b.json, ',')
	}
	return b.json
}

// took accepts a trace that was appended to the result of room, and the size of its line.
func (b *batch) took(json []byte, line int) {
	if len(b.ends) == 0 {
		b.since = time.Now()
	}
	b.json = json
	b.ends = append(b.ends, len(json))
	b.lines += line
}

// add encodes and adds a trace.
func (b *batch) add(t *api.TraceInput, line int) error {
	json, err := t.AppendJSON(b.room())
	if err == nil {
		b.took(json, line)
	}
	return err
}

// one returns the JSON of a trace.
func (b *batch) one(i int) []byte {
	if i == 0 {
		return b.json[len(batchStart):b.ends[0]]
	}
	return b.json[b.ends[i-1]+1 : b.ends[i]]
}

// body returns the JSON of an api.TraceBatch with the traces from one index up to
// another. For the whole batch it shares the memory of the batch, which must not be
// modified while it is read.
func (b *batch) body(from, to int) []byte {
	if from == 0 {
		end := b.ends[to-1]
		if to == len(b.ends) {
			b.own()
			whole := append(b.json, "]}"...)
			b.json = whole[:end]
			return whole
		}
		return append(append(make([]byte, 0, end+2), b.json[:end]...), "]}"...)
	}
	begin, end := b.ends[from-1]+1, b.ends[to-1]
	body := append(make([]byte, 0, len(batchStart)+end-begin+2), batchStart...)
	return append(append(body, b.json[begin:end]...), "]}"...)
}
