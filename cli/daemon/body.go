package daemon

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// A request body may take bodyGrace plus the time its bytes need at
// bodyRate, so that a sender of one byte a second cannot hold a connection.
const (
	bodyGrace = 30 * time.Second
	bodyRate  = 16 << 10 // bytes per second
)

// endAfterChunks ends a connection after a request whose body came in chunks. Such
// a request may have had a Content-Length too, which net/http drops without a word;
// whoever stands in front of us may have gone by that, and what it takes for the
// rest of a body must not become a request here (RFC 9112, section 6.1).
func endAfterChunks(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// limitBodyTime gives every request body a deadline that grows with what has
// arrived. It stands from the start of the request, for net/http reads what a
// handler has left of the body before it sends the answer; and it is lifted at the
// end of the body, so that a long answer, an event stream for one, is not cut by
// it. A body that came too late keeps its deadline, which closes the connection.
func limitBodyTime(h http.Handler, grace time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
			b := &timedBody{
				ReadCloser: r.Body,
				ctx:        r.Context(),
				deadline:   http.NewResponseController(w).SetReadDeadline,
				grace:      grace,
				start:      time.Now(),
			}
			_ = b.grant() // not every connection has deadlines; the first read says so again
			// net/http looks at the body of its own request: when much of that was left
			// it gives the client time to read the answer before the connection ends.
			r = r.WithContext(r.Context())
			r.Body = b
			// A request that is cut does not wait for the rest of its body.
			defer endWith(r.Context(), b.deadline)()
		}
		h.ServeHTTP(w, r)
	})
}

// endWith ends the reading of a body when ctx ends. The returned function stops
// that, and waits for a deadline that is being set: net/http does not check whether
// the request of a ResponseController is still served.
func endWith(ctx context.Context, deadline func(time.Time) error) (stop func()) {
	var mu sync.Mutex
	served := false
	cancel := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !served {
			_ = deadline(time.Unix(1, 0))
		}
	})
	return func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		served = true
	}
}

// timedBody is used by one goroutine, as request bodies are.
type timedBody struct {
	io.ReadCloser
	ctx      context.Context // of the request
	deadline func(time.Time) error
	grace    time.Duration
	start    time.Time
	read     int64 // bytes that have arrived
	granted  int64 // bytes that the current deadline allows for
}

// grant moves the deadline. One grant covers a second's worth of bytes and more,
// so that large bodies do not set a deadline for every read.
func (b *timedBody) grant() error {
	b.granted = b.read + 4*bodyRate
	err := b.deadline(b.start.Add(b.grace + time.Duration(b.granted)*time.Second/bodyRate))
	if b.ctx.Err() != nil { // endWith may have been first
		return b.deadline(time.Unix(1, 0))
	}
	return err
}

func (b *timedBody) Read(p []byte) (int, error) {
	if b.read >= b.granted {
		if err := b.grant(); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF {
		if derr := b.deadline(time.Time{}); derr != nil {
			return n, derr
		}
	}
	return n, err
}
