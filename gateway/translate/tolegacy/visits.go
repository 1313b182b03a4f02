package tolegacy

import (
	"sync"
	"time"
)

// maxVisits bounds the states of visits that are remembered at one upstream. Beyond it the
// oldest is forgotten, whose retry is again a call that its client sent.
const maxVisits = 4096

// visits are the states of an error -32042 that were used. Their retry is a call of its own,
// so that nothing else shows that they were. It is safe for concurrent use.
type visits struct {
	mu    sync.Mutex
	used  map[string]bool
	order []visit // in the order of their use
}

// visit is a state that was used.
type visit struct {
	name    string
	expires int64
}

// use uses a state; false where it was used before, by this replica.
func (v *visits) use(st *state, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.order) > 0 && (v.order[0].expires < now.Unix() || len(v.order) >= maxVisits) {
		delete(v.used, v.order[0].name)
		v.order = v.order[1:]
	}
	if v.used[st.Visit] {
		return false
	}
	if v.used == nil {
		v.used = map[string]bool{}
	}
	v.used[st.Visit] = true
	v.order = append(v.order, visit{st.Visit, st.Expires})
	return true
}
