package daemon

import (
	"io"
	"net/http"
	"time"
)

// A request body may take bodyGrace plus the time its bytes need at
// bodyRate, so that a sender of one byte a second cannot hold a connection.
const (
	bodyGrace = 30 * time.Second
	bodyRate  = 16 << 10 // bytes per second
)

// limitBodyTime gives every request body a deadline that grows with what has
// arrived. It is lifted at the end of the body, so that a long answer, an
// event stream for one, is not cut by it.
func limitBodyTime(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
			r.Body = &timedBody{
				ReadCloser: r.Body,
				deadline:   http.NewResponseController(w).SetReadDeadline,
			}
		}
		h.ServeHTTP(w, r)
	})
}

// timedBody is used by one goroutine, as request bodies are.
type timedBody struct {
	io.ReadCloser
	deadline func(time.Time) error
	start    time.Time
	read     int64 // bytes that have arrived
	granted  int64 // bytes that the current deadline allows for
}

func (b *timedBody) Read(p []byte) (int, error) {
	if b.start.IsZero() || b.read >= b.granted {
		if b.start.IsZero() {
			b.start = time.Now()
		}
		// One grant covers a second's worth of bytes and more, so that large
		// bodies do not set a deadline for every read.
		b.granted = b.read + 4*bodyRate
		allowed := bodyGrace + time.Duration(b.granted)*time.Second/bodyRate
		if err := b.deadline(b.start.Add(allowed)); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil {
		if derr := b.deadline(time.Time{}); derr != nil && err == io.EOF {
			return n, derr
		}
	}
	return n, err
}
