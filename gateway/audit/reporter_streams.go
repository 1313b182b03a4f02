package audit

import (
	"slices"
	"time"

	"svc/store/api"
)

// openStreams are the streams whose opening line was read and whose closing line was
// not, oldest first. Each becomes one trace when the next start or stop checkpoint is read.
type openStreams struct {
	byID  map[string]*openStream
	order []*openStream // ended streams are removed when they are reached
}

type openStream struct {
	trace api.TraceInput
	from  Position // before the line of its opening
	ended bool
}

func newOpenStreams() *openStreams { return &openStreams{byID: make(map[string]*openStream)} }

// begin adds a stream whose opening line follows a position. It returns false when there are too
// many.
func (o *openStreams) begin(t api.TraceInput, from Position) bool {
	if len(o.byID) >= maxOpen {
		return false
	}
	if o.byID[t.ID] == nil {
		s := &openStream{trace: t, from: from}
		o.byID[t.ID] = s
		o.order = append(o.order, s)
	}
	return true
}

// end removes a stream, if it is known.
func (o *openStreams) end(id string) {
	s := o.byID[id]
	if s == nil {
		return
	}
	s.ended = true
	delete(o.byID, id)
	for len(o.order) > 0 && o.order[0].ended {
		o.order = o.order[1:]
	}
	if len(o.order) > 2*len(o.byID)+64 {
		live := make([]*openStream, 0, len(o.byID))
		for _, s := range o.order {
			if !s.ended {
				live = append(live, s)
			}
		}
		o.order = live
	}
}

// processEnd is the end of a process, and the error_kind of the streams that ended with it.
type processEnd struct {
	at   time.Time
	Kind string
}

// cut ends all streams, because the process that served them has ended. Each becomes one trace: an
// error, except for streams that were opened to listen.
func (o *openStreams) cut(by processEnd) []api.TraceInput {
	traces := o.list()
	for i := range traces {
		t := &traces[i]
		t.ErrorKind = by.Kind
		took := millis(by.at.Sub(t.CreatedAt))
		if n := len(t.Spans); n > 0 && t.Spans[n-1].Stage == StageListening {
			t.Spans = slices.Clone(t.Spans)
			t.Spans[n-1].DurationMs = max(0, took-t.DurationMs)
			continue
		}
		t.Status = "error"
		t.DurationMs = took
	}
	o.byID, o.order = make(map[string]*openStream), nil
	return traces
}

// list returns the traces of the open streams.
func (o *openStreams) list() []api.TraceInput {
	var traces []api.TraceInput
	for _, s := range o.save() {
		traces = append(traces, s.Trace)
	}
	return traces
}

// save returns the open streams.
func (o *openStreams) save() []savedOpen {
	if len(o.byID) == 0 {
		return nil
	}
	list := make([]savedOpen, 0, len(o.byID))
	for _, s := range o.order {
		if !s.ended {
			list = append(list, savedOpen{s.from, s.trace})
		}
	}
	return list
}

// oldest returns the position before the opening line of the oldest open stream, otherwise p: who
// begins there reads all lines of the streams that are open at p.
func (o *openStreams) oldest(p Position) Position {
	if len(o.byID) == 0 {
		return p
	}
	return o.order[0].from // ended streams are removed from the beginning
}
