package bodies

import (
	"context"
	"errors"
	"io"
)

// MaxPrefix bounds the part of a body that is read for its id alone, after the request was
// refused.
const MaxPrefix = 64 << 10

// ErrTooLarge: a body is longer than its limit.
var ErrTooLarge = errors.New("body is too large")

// ReadAll appends the content of r to dst, at most limit bytes. Longer content is ErrTooLarge,
// with the first limit bytes read. length is the announced length, or -1. If an identified caller
// announces more than MaxPrefix, the bytes are reserved before they are read, for which ReadAll
// waits up to a second or until ctx ends; others are counted as they arrive.
func ReadAll(ctx context.Context, dst []byte, r io.Reader, limit, length int64, count *Share) ([]byte, error) {
	if MaxPrefix < length && length <= limit && count.rows[1] != nil {
		if err := count.reserve(ctx, length); err != nil {
			return dst, err
		}
		defer count.settle()
	}
	count.arriving = true
	defer func() { count.arriving = false }()
	if length < 0 || length > limit {
		length = limit
	}
	for {
		if cap(dst)-len(dst) < 512 {
			dst = grow(dst, length)
		}
		room := dst[len(dst):cap(dst)]
		if over := int64(len(dst)+len(room)) - limit; over > 1 {
			room = room[:int64(len(room))-over+1]
		}
		n, err := r.Read(room)
		dst = dst[:len(dst)+n]
		if err := count.Count(n); err != nil {
			return dst, err
		}
		if int64(len(dst)) > limit {
			return dst[:limit], ErrTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// grow returns a buffer of twice the size with the bytes of b. With smaller steps the discarded
// buffers would take more memory than the unused part of a large one. length is the largest
// expected size; the buffer does not exceed it, and grows only with the bytes that have arrived.
func grow(b []byte, length int64) []byte {
	const step = 4 << 10
	size := max(2*cap(b), step)
	if whole := length + 512; int64(len(b)) <= length && int64(size) > whole {
		size = int(max(whole, step))
	}
	grown := make([]byte, len(b), size)
	copy(grown, b)
	return grown
}
