package report

import (
	"time"

	"svc/server/api"
)

// openStreams are the streams whose opening line was read and whose closing line was
// not, oldest first (decision AUD46).
type openStreams struct {
	byID  map[string]*openStream
	order []*openStream // ended streams are removed when they are reached
}

type openStream struct {
	trace api.TraceInput
	ended bool
}

func newOpenStreams(traces []api.TraceInput) *openStreams {
	o := &openStreams{byID: make(map[string]*openStream)}
	for _, t := range traces {
		o.begin(t)
	}
	return o
}

// begin adds a stream. It returns false when there are too many.
func (o *openStreams) begin(t api.TraceInput) bool {
	if len(o.byID) >= maxOpen {
		return false
	}
	if o.byID[t.ID] == nil {
		s := &openStream{trace: t}
		o.byID[t.ID] = s
		o.order = append(o.order, s)
	}
	return true
}

// end removes a stream, if it is known.
func (o *openStreams) end(id []byte) {
	s := o.byID[string(id)]
	if s == nil {
		return
	}
	s.ended = true
	delete(o.byID, string(id))
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

// cut ends all streams at a time, because the process that served them has ended. Each
// becomes one trace with status error.
func (o *openStreams) cut(at time.Time) []api.TraceInput {
	traces := o.list()
	for i := range traces {
		t := &traces[i]
		t.Status = "error"
		t.DurationMs = millis(at.Sub(t.CreatedAt))
	}
	o.byID, o.order = make(map[string]*openStream), nil
	return traces
}

// list returns the open streams.
func (o *openStreams) list() []api.TraceInput {
	if len(o.byID) == 0 {
		return nil
	}
	traces := make([]api.TraceInput, 0, len(o.byID))
	for _, s := range o.order {
		if !s.ended {
			traces = append(traces, s.trace)
		}
	}
	return traces
}
