package daemon

import (
	"net/http"
	"sync/atomic"
	"time"
)

// inFlight counts the requests that a handler works on. Closing a server cuts
// their connections and does not wait for them; what they still have to do, such
// as to account for themselves, must be done before what they use is closed.
type inFlight struct {
	http.Handler
	n atomic.Int64
}

func (r *inFlight) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.n.Add(1)
	defer r.n.Add(-1)
	r.Handler.ServeHTTP(w, req)
}

// wait waits until no request is worked on, at most the given time, and returns
// how many still are.
func (r *inFlight) wait(patience time.Duration) int64 {
	const pause = 5 * time.Millisecond
	for end := time.Now().Add(patience); r.n.Load() > 0 && time.Now().Before(end); {
		time.Sleep(pause)
	}
	return r.n.Load()
}
