package translate

import (
	"sync"
	"time"
)

// maxVisits bounds the stored states of visits at one upstream. Beyond it the oldest is
// forgotten; its retry could then be sent twice by the client.
const maxVisits = 4096

// visits are the used states of errors -32042. Their retry is a new call, so the use of a
// state must be recorded. It is safe for concurrent use.
type visits struct {
	mu    sync.Mutex
	used  map[string]bool
	order []visit // in the order of their use
}

// visit is a used state.
type visit struct {
	name    string
	expires int64
}

// use uses a state; false if this replica has used it before.
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
