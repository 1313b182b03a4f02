package daemon

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// A request body may take bodyGrace plus the time that its bytes need at bodyRate, so
// that a sender of one byte a second cannot occupy a connection.
const (
	bodyGrace = 30 * time.Second
	bodyRate  = 16 << 10 // bytes per second
)

// endAfterChunks closes the connection after a request with a chunked body. Such a
// request may also have a Content-Length, which net/http ignores silently. A proxy in
// front may have used the Content-Length, and the bytes that it takes for the rest of
// the body must not become a request here (request smuggling; RFC 9112, section 6.1).
func endAfterChunks(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// limitBodyTime gives every request body a deadline that is extended as bytes arrive.
// It applies from the start of the request, because net/http reads the unread rest of
// a body before it sends the response. It is removed at the end of the body, so that
// it does not end a long response such as an event stream. A body that comes too late
// keeps its deadline, which closes the connection.
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
			_ = b.grant() // not every connection supports deadlines; the first read returns the error again
			// net/http checks the body of its own request: when much of it is unread,
			// it gives the client time to read the response before it closes the
			// connection.
			r = r.WithContext(r.Context())
			r.Body = b
			// A canceled request does not wait for the rest of its body.
			defer endWith(r.Context(), b.deadline)()
		}
		h.ServeHTTP(w, r)
	})
}

// endWith ends the reading of a body when ctx ends. The returned function undoes
// that, and waits for a concurrent SetReadDeadline, because net/http does not check
// whether the request of a ResponseController is still served.
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

// timedBody is used by one goroutine, like every request body.
type timedBody struct {
	io.ReadCloser
	ctx      context.Context // context of the request
	deadline func(time.Time) error
	grace    time.Duration
	start    time.Time
	read     int64 // bytes that have arrived
	granted  int64 // bytes that the current deadline allows
}

// grant extends the deadline. It grants at least a second's worth of bytes at once,
// so that large bodies do not set a deadline for every read.
func (b *timedBody) grant() error {
	b.granted = b.read + 4*bodyRate
	err := b.deadline(b.start.Add(b.grace + time.Duration(b.granted)*time.Second/bodyRate))
	if b.ctx.Err() != nil { // endWith may have set its deadline first
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
