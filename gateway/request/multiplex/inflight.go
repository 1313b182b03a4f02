package multiplex

import (
	"context"
	"time"

	"svc/gateway/session"
)

// Limits of the requests that are tracked as in flight.
const (
	maxInFlight    = 65_536
	inFlightShards = 16
	inFlightTTL    = time.Hour // for a request whose client disconnected and never canceled it
)

// InFlight is a set of requests of one side that have no answer yet, with the calls to which they
// belong: those of clients, so that their cancellation can be routed, or the questions of upstreams. It
// is sharded over several maps, so that requests do not contend for one lock.
type InFlight [inFlightShards]*session.TaskMemory

// NewInFlight returns an empty set.
func NewInFlight(now func() time.Time) *InFlight {
	f := new(InFlight)
	for i := range f {
		f[i] = session.NewTaskMemory(maxInFlight/inFlightShards, inFlightTTL, now)
	}
	return f
}

// of returns the map of a request in a client's session, and its key there.
func (f *InFlight) of(id session.ID, r reference) (*session.TaskMemory, session.Key) {
	key := session.KeyOf(r.kind, r.upstream, string(id[:]), string(r.value))
	return f[key[0]%inFlightShards], key
}

// reference is how a message names an earlier one.
type reference struct {
	kind     string // call, question or progress
	upstream string // that chose the value; empty if the client did
	value    []byte // JSON
}

// call refers to a request of a client by its id.
func call(id []byte) reference { return reference{"call", "", id} }

// Add records the call to which a request belongs.
func (f *InFlight) Add(ctx context.Context, id session.ID, r reference, o session.Origin) {
	m, key := f.of(id, r)
	m.Learn(ctx, key, o)
}

// Remove removes a request.
func (f *InFlight) Remove(ctx context.Context, id session.ID, r reference) {
	m, key := f.of(id, r)
	m.Forget(ctx, key)
}

// Origin returns the call to which a request belongs; zero when it is unknown.
func (f *InFlight) Origin(ctx context.Context, id session.ID, r reference) (o session.Origin) {
	if len(r.value) > 0 {
		m, key := f.of(id, r)
		o, _ = m.Origin(ctx, key)
	}
	return o
}
