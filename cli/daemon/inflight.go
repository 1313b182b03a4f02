package daemon

import (
	"net/http"
	"sync/atomic"
	"time"
)

// inFlight counts the requests in a handler. Closing a server closes their
// connections and does not wait for the handlers. What they still have to do,
// such as writing their audit lines, must be done before the parts that they use
// are closed.
type inFlight struct {
	http.Handler
	n atomic.Int64
}

func (r *inFlight) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.n.Add(1)
	defer r.n.Add(-1)
	r.Handler.ServeHTTP(w, req)
}

// wait waits until no request is in flight, at most for the given time, and
// returns the number of those that still are.
func (r *inFlight) wait(patience time.Duration) int64 {
	const pause = 5 * time.Millisecond
	for end := time.Now().Add(patience); r.n.Load() > 0 && time.Now().Before(end); {
		time.Sleep(pause)
	}
	return r.n.Load()
}
