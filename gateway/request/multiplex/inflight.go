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

// InFlight is the set of requests in flight at upstreams other than the default one,
// so that their cancellation can be routed. It is sharded over several maps, so that
// requests do not contend for one lock.
type InFlight [inFlightShards]*session.TaskMemory

// NewInFlight returns an empty set.
func NewInFlight(now func() time.Time) *InFlight {
	f := new(InFlight)
	for i := range f {
		f[i] = session.NewTaskMemory(maxInFlight/inFlightShards, inFlightTTL, now)
	}
	return f
}

// of returns the map of a request of a client's session, and its key there.
func (f *InFlight) of(id session.ID, request []byte) (*session.TaskMemory, session.Key) {
	key := session.KeyOf("call", "", string(id[:]), string(request))
	return f[key[0]%inFlightShards], key
}

// Add records the upstream of a request. request is its JSON-RPC id.
func (f *InFlight) Add(ctx context.Context, id session.ID, request []byte, upstream string) {
	m, key := f.of(id, request)
	m.Learn(ctx, key, upstream)
}

// Remove removes a request.
func (f *InFlight) Remove(ctx context.Context, id session.ID, request []byte) {
	m, key := f.of(id, request)
	m.Forget(ctx, key)
}

// Upstream returns the upstream of a request; false when it is at the default upstream
// or unknown.
func (f *InFlight) Upstream(ctx context.Context, id session.ID, request []byte) (string, bool) {
	if len(request) == 0 {
		return "", false
	}
	m, key := f.of(id, request)
	return m.Upstream(ctx, key)
}
