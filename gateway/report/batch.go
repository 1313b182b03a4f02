package report

import (
	"bytes"
	"time"

	"svc/gateway/audit"
	"svc/server/api"
)

// batchStart is how the JSON of an api.TraceBatch begins.
const batchStart = `{"traces":[`

// batch is what one request carries: traces, and the position behind the lines
// they came from.
type batch struct {
	json  []byte // batchStart, and the traces with commas between them
	ends  []int  // behind each trace
	lines int    // bytes of their lines
	since time.Time
	start audit.Position // behind the lines of the batch before
	after audit.Position
	// lent is set when a request for it failed, which may go on reading the JSON:
	// it stays as it is then.
	lent bool
}

// newBatch returns an empty batch of what stands behind a position. It takes
// over the buffers of the one before.
func newBatch(after audit.Position, before batch) batch {
	if before.lent {
		before = batch{}
	}
	return batch{json: append(before.json[:0], batchStart...), ends: before.ends[:0], start: after, after: after}
}

func (b *batch) len() int { return len(b.ends) }

// own makes the JSON one that nobody else reads.
func (b *batch) own() {
	if b.lent {
		b.json, b.lent = bytes.Clone(b.json), false
	}
}

// room returns the JSON with what stands between two traces: a trace is appended
// to it and then given to took.
func (b *batch) room() []byte {
	b.own()
	if len(b.ends) > 0 {
		return append(b.json, ',')
	}
	return b.json
}

// took adds a trace that was appended to the room, and the bytes of its line.
func (b *batch) took(json []byte, line int) {
	if len(b.ends) == 0 {
		b.since = time.Now()
	}
	b.json = json
	b.ends = append(b.ends, len(json))
	b.lines += line
}

// add adds a trace. It errs when JSON cannot say it.
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

// body returns the JSON of an api.TraceBatch of the traces from one to before
// another. It shares the memory of the batch where it is whole: nothing may be
// added while that is read.
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
