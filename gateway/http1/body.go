package http1

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// body is the body of a request: a number of bytes of the connection. Only one goroutine
// at a time may use it.
type body struct {
	c       *conn
	left    int64 // bytes not read
	read    int64 // bytes read from the network
	granted int64 // bytes that the read deadline covers
	err     error
	closed  bool
}

// maxDiscard is the size up to which an unread body is read and dropped, so that the
// connection can be reused. Beyond it a new connection is cheaper.
const maxDiscard = 256 << 10

func (b *body) begin(length int64) {
	*b = body{c: b.c, left: length}
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	n, err := b.take(p)
	if err == nil && b.left == 0 {
		err = io.EOF // together with the last bytes
	}
	return n, err
}

// Close implements [io.Closer]. The rest of the body is handled after the handler.
func (b *body) Close() error {
	b.closed = true
	return nil
}

// take reads some of the remaining bytes.
func (b *body) take(p []byte) (int, error) {
	c := b.c
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		b.left -= int64(n)
		return n, nil
	}
	if b.read >= b.granted {
		b.grant()
	}
	n, err := c.rd.Read(p)
	b.read += int64(n)
	b.left -= int64(n)
	if n > 0 {
		return n, nil // the error is returned again by the next call
	}
	if err == nil {
		return 0, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	b.err = err
	return 0, err
}

// grant extends the read deadline of the body: the grace, plus the time for its bytes at
// the minimum rate, counted from the start of the request. One grant covers the bytes of
// several seconds, so that a large body does not set a deadline for every read. A body
// that arrived with its header sets none. A deadline that the handler has set is not
// changed.
func (b *body) grant() {
	c := b.c
	if c.readSet {
		return
	}
	rate := int64(c.srv.opts.BodyRate)
	b.granted = b.read + 4*rate
	until := c.began + c.srv.opts.BodyGrace + time.Duration(b.granted)*time.Second/time.Duration(rate)
	c.armRead(until, 0)
	if c.srv.canceled.Load() {
		_ = c.raw.SetReadDeadline(time.Unix(1, 0))
	}
}

// settle handles the rest of a body that the handler did not read, before the response is
// sent: a client that is still sending may not read yet. It reports whether the
// connection is at the end of the body. A goroutine that still reads the body gets an
// error, so that it cannot mistake a part for the whole.
func (b *body) settle() bool {
	if b.left > 0 {
		b.closed = true
	}
	if n := int64(b.c.w - b.c.r); n > 0 {
		n = min(n, b.left)
		b.c.r += int(n)
		b.left -= n
	}
	if b.left > maxDiscard {
		return false
	}
	if b.left > 0 && b.err == nil {
		var waste [4 << 10]byte
		for b.left > 0 {
			if _, err := b.take(waste[:]); err != nil {
				break
			}
		}
	}
	return b.left == 0
}
