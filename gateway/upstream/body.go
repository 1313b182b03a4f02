package upstream

import (
	"errors"
	"io"
	"math"
	"slices"
	"sync/atomic"
)

const (
	noLimit = math.MaxInt64
	// directRead is how much room there must be for data to be read straight to
	// the caller, past the buffer. Within chunks it is more: there a full buffer
	// saves a read for the framing of each.
	directRead  = smallBuffer
	directChunk = bigBuffer / 2

	// maxGrowth is how much memory is set aside at once for what has not come.
	maxGrowth = 1 << 20
)

// The states of a body. Read and Close may meet: the one whose change of state
// succeeds ends the exchange, and a connection goes back to the pool only from
// bodyReading, when nobody can be about to cut it.
const (
	bodyIdle    int32 = iota
	bodyReading       // a Read is under way
	bodyClosing       // and Close came: the Read ends the exchange
	bodyEnded         // by a Read: err says how
	bodyClosed        // by Close
)

var (
	errBodyClosed     = errors.New("the body was closed")
	errConcurrentRead = errors.New("two reads of one body at once")
)

// body streams the body of an answer.
type body struct {
	x     *exchange
	cn    *conn
	kind  framing
	reuse bool // the connection may have another exchange after this body

	remaining int64 // of the body, or of the chunk
	total     int64 // delivered
	limit     int64
	chunks    chunks
	before    func() // see Response.BeforeWait; nil for nothing

	state atomic.Int32
	err   error // written before the state becomes bodyEnded
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyIdle, bodyReading) {
		switch b.state.Load() {
		case bodyEnded:
			return 0, b.err
		case bodyClosed:
			return 0, b.fail(errBodyClosed)
		default:
			return 0, b.fail(errConcurrentRead)
		}
	}
	n, err := b.read(p)
	b.total += int64(n)
	if b.total > b.limit {
		n, err = 0, ErrTooLarge
	}
	if err == nil {
		if !b.state.CompareAndSwap(bodyReading, bodyIdle) {
			b.release(false)
			b.state.Store(bodyClosed)
		}
		return n, nil
	}
	b.err = err
	if err != io.EOF {
		b.err = b.fail(err)
	}
	if b.state.CompareAndSwap(bodyReading, bodyEnded) {
		b.release(err == io.EOF)
		return n, b.err
	}
	b.release(false)
	b.state.Store(bodyClosed)
	if err != io.EOF {
		err = b.fail(errBodyClosed)
	}
	return n, err
}

// Close implements io.Closer. A body that was not read to its end costs the
// connection: waiting for the rest could last forever.
func (b *body) Close() error {
	for {
		switch b.state.Load() {
		case bodyIdle:
			if b.state.CompareAndSwap(bodyIdle, bodyClosed) {
				b.release(false)
				return nil
			}
		case bodyReading:
			if b.state.CompareAndSwap(bodyReading, bodyClosing) {
				b.cn.abortFunc()
				return nil
			}
		default:
			return nil
		}
	}
}

// release gives the connection up: to the pool when the body was read exactly to
// its end and nothing else speaks against it.
func (b *body) release(complete bool) {
	cn, p := b.cn, &b.x.client.pool
	if b.x.unwatch() && complete && b.reuse && cn.reset() {
		p.put(cn)
	} else {
		p.discard(cn)
	}
}

// fail makes the error of a Read. When the caller gave up, that is the cause,
// whatever the connection said as it was closed.
func (b *body) fail(err error) error {
	if ctxErr := b.x.ctx.Err(); ctxErr != nil {
		err = ctxErr
	}
	return b.x.client.fail(opBody, true, err)
}

// read returns data, or an error, or both when the error is io.EOF.
func (b *body) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	switch b.kind {
	case framedLength:
		return b.readLength(p)
	case framedChunked:
		return b.readChunked(p)
	default:
		return b.receive(p, directRead)
	}
}

func (b *body) readLength(p []byte) (int, error) {
	if int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	n, err := b.receive(p, directRead)
	b.remaining -= int64(n)
	switch {
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case b.remaining == 0 && err == nil:
		err = io.EOF
	}
	return n, err
}

// receive returns what is buffered, else waits for more: straight into p when
// that has at least direct bytes of room. It never returns both data and an error.
func (b *body) receive(p []byte, direct int) (int, error) {
	cn := b.cn
	if cn.r == cn.w {
		b.wait()
		if len(p) >= direct {
			return cn.read(p)
		}
		if err := cn.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, cn.unread())
	cn.r += n
	return n, nil
}

// wait is what comes before the connection is read.
func (b *body) wait() {
	if b.before != nil {
		b.before()
	}
	b.cn.armFor(&b.x.client.pool, b.x.between)
}

// more waits for more data behind what is unread.
func (b *body) more() error {
	b.wait()
	err := b.cn.fill()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// BeforeWait has f called whenever a Read of the body is about to ask the
// connection for data, because all that came before was delivered: whoever passes
// the body on sends at the latest then what it holds. It is called on the
// goroutine of the Read, and must be set before the first. A body of another kind than
// this client's has a method of this name, or never waits.
func (r *Response) BeforeWait(f func()) {
	if b, ok := r.Body.(interface{ BeforeWait(f func()) }); ok {
		b.BeforeWait(f)
	}
}

// BeforeWait is [Response.BeforeWait].
func (b *body) BeforeWait(f func()) { b.before = f }

// Counter is told of bytes as they arrive; its error ends the reading of a body.
type Counter interface{ Count(n int) error }

// ReadAll reads the body to its end and appends it to dst, in as few reads as its
// length allows when that is known. It returns what it has read with every error;
// the size is bounded by the client, and by a counter that is not nil. The body must
// still be closed.
func (r *Response) ReadAll(dst []byte, count Counter) ([]byte, error) {
	if n := r.ContentLength; n > 0 {
		// The length is only the upstream's word: large bodies grow as they come.
		dst = slices.Grow(dst, int(min(n, maxGrowth)))
	}
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, max(smallBuffer, min(len(dst), maxGrowth)))
		}
		n, err := r.Body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if count != nil {
			if err := count.Count(n); err != nil {
				return dst, err
			}
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
