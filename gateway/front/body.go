package front

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// body is the body of a request: so many bytes of the connection. Its methods are
// for one goroutine at a time.
type body struct {
	c       *conn
	left    int64 // bytes not read
	read    int64 // bytes that came from the network
	granted int64 // bytes that the read deadline allows for
	err     error
	closed  bool
}

// maxDiscard is how much of a body that the handler left is read so that the
// connection can have another request. Beyond it a new connection is cheaper.
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

// Close implements [io.Closer]. What is left is dealt with after the handler.
func (b *body) Close() error {
	b.closed = true
	return nil
}

// take returns some of what is left.
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
		return n, nil // an error comes again
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

// grant moves the deadline of the body: its grace and what its bytes need at the
// slowest rate that is borne, counted from the start of the request. One grant
// covers several seconds' worth of bytes, so that large bodies do not set a
// deadline for every read. A body that is here with its header sets none. Nor is
// one moved that the handler has set.
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

// settle makes an end of what the handler has left of the body, before its answer
// goes out: a client that is still sending may not listen yet. It reports whether
// the connection is at the end of the body. Whoever still reads is told: half a
// body must not look like a whole one.
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
