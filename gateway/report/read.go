package report

import (
	"io"
	"runtime"
	"time"

	"svc/gateway/audit"
	"svc/server/api"
)

// due reports whether a batch should be sent now.
func (r *Reporter) due(b *batch, now time.Time) bool {
	if b.len() == 0 {
		return false
	}
	return r.isFull(b) || now.Sub(b.since) >= lead && now.Sub(r.posted) >= r.cfg.Traces.FlushInterval
}

func (r *Reporter) isFull(b *batch) bool {
	return b.len() >= r.cfg.Traces.BatchSize || b.lines >= maxBatchBytes
}

// read adds lines to the batch until the batch is full, and returns true if it reached
// the end of the file first.
func (r *Reporter) read(b *batch) (end bool) {
	var rec audit.Record
	var glance audit.FastLine
	for n := 1; !r.isFull(b); n++ {
		if n%turn == 0 {
			runtime.Gosched()
		}
		missing := r.reader.Missing()
		l, err := r.reader.Next()
		if n := r.reader.Missing() - missing; n > 0 {
			r.stats.dropped.Add(n)
			r.opts.Logger.Warn("audit lines were deleted before they were reported", "lines", n)
		}
		if err != nil {
			if err != io.EOF {
				r.opts.Logger.Warn("the audit file cannot be read", "error", err)
			}
			return true
		}
		b.after = l.After
		if glance.Read(l.Bytes) {
			json, became := r.mapper.appendTraceFast(b.room(), &glance)
			if became == mapped {
				b.took(json, len(l.Bytes))
				r.open.end(glance.RequestID)
			}
			if became != needsDecode {
				continue
			}
		}
		if err := audit.Decode(l.Bytes, &rec); err != nil {
			r.stats.dropped.Add(1)
			r.opts.Logger.Warn("an audit line cannot be read", "seq", l.Seq, "error", err)
			continue
		}
		r.take(b, &rec, len(l.Bytes))
	}
	return false
}

// take adds the trace of one line to the batch.
func (r *Reporter) take(b *batch, rec *audit.Record, size int) {
	switch {
	case rec.Kind == audit.KindCheckpoint:
		if e := rec.Checkpoint.Event; e == audit.EventStart || e == audit.EventStop {
			for _, t := range r.open.cut(rec.Time) {
				r.add(b, &t, size)
			}
		}
	case !r.mapper.wanted(rec):
	case rec.Kind == audit.KindOpen:
		if !r.open.begin(r.mapper.trace(rec)) {
			r.opts.Logger.Debug("too many open streams: some are not tracked", "limit", maxOpen)
		}
	default:
		t := r.mapper.trace(rec)
		r.open.end([]byte(t.ID))
		r.add(b, &t, size)
	}
}

// add adds a trace to the batch.
func (r *Reporter) add(b *batch, t *api.TraceInput, size int) {
	if err := b.add(t, size); err != nil { // fails for a time outside the range of JSON times
		r.stats.dropped.Add(1)
		r.opts.Logger.Warn("a trace cannot be written as JSON", "id", t.ID, "error", err)
	}
}
