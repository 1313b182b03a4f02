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
	// directRead is the minimum size of a caller's buffer into which data is read
	// directly, bypassing the connection's buffer. Within chunks the minimum is larger:
	// there a full buffer saves a read for the framing of each chunk.
	directRead  = smallBuffer
	directChunk = bigBuffer / 2

	// maxGrowth bounds the memory that is allocated at once for data that has not
	// arrived.
	maxGrowth = 1 << 20
)

// The states of a body. Read and Close may run concurrently. The goroutine whose change
// of state succeeds ends the exchange. A connection returns to the pool only from
// bodyReading, when no other goroutine can close it.
const (
	bodyIdle    int32 = iota
	bodyReading       // a Read is in flight
	bodyClosing       // Close was called during a Read, which ends the exchange
	bodyEnded         // ended by a Read; err is the reason
	bodyClosed        // ended by Close
)

var (
	errBodyClosed     = errors.New("the body was closed")
	errConcurrentRead = errors.New("two reads of one body at once")
)

// body streams the body of a response.
type body struct {
	x     *exchange
	cn    *conn
	kind  framing
	reuse bool // the connection may be reused after this body

	remaining int64 // of the body, or of the chunk
	total     int64 // bytes delivered
	limit     int64
	chunks    chunks
	before    func() // see Response.BeforeWait; may be nil

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

// Close implements io.Closer. If the body was not read to its end the connection is
// closed, because the rest may take without limit.
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

// release releases the connection: to the pool when the body was read exactly to its end
// and the connection can be reused.
func (b *body) release(complete bool) {
	cn, p := b.cn, &b.x.client.pool
	if b.x.unwatch() && complete && b.reuse && cn.reset() {
		p.put(cn)
	} else {
		p.discard(cn)
	}
}

// fail returns the error of a Read. When the caller's context has ended, its error takes
// precedence over the error of the closed connection.
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

// receive returns buffered data, or waits for more, which is read directly into p if p
// has at least direct bytes. It never returns both data and an error.
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

// wait is called before the connection is read.
func (b *body) wait() {
	if b.before != nil {
		b.before()
	}
	b.cn.armFor(&b.x.client.pool, b.x.between)
}

// more reads more data, after the unread data.
func (b *body) more() error {
	b.wait()
	err := b.cn.fill()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// BeforeWait sets a function that is called whenever a Read of the body is about to wait
// for the connection, because all earlier data was delivered. A proxy flushes its own
// buffer there. f is called on the goroutine of the Read, and must be
// set before the first Read. Bodies of other types implement a method with this name, or
// never call f.
func (r *HTTPResponse) BeforeWait(f func()) {
	if b, ok := r.Body.(interface{ BeforeWait(f func()) }); ok {
		b.BeforeWait(f)
	}
}

// BeforeWait is [HTTPResponse.BeforeWait].
func (b *body) BeforeWait(f func()) { b.before = f }

// Counter counts bytes as they arrive; its error ends the reading of a body.
type Counter interface{ Count(n int) error }

// ReadAll reads the body to its end and appends it to dst, in as few reads as possible
// when its length is known. With every error it returns the data that it has read. The
// client, and a counter that is not nil, bound the size. The body must still be closed.
func (r *HTTPResponse) ReadAll(dst []byte, count Counter) ([]byte, error) {
	if n := r.ContentLength; n > 0 {
		// The length is not trusted: memory for a large body grows as its data arrives.
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
