package stdio

import (
	"bytes"
	"errors"
	"io"
)

// Sizes of the buffers of a reader of lines.
const (
	firstBuffer = 4 << 10
	keepBuffer  = 256 << 10 // larger buffers are released after their line
)

// errLineTooLong is the error of a line beyond the limit.
var errLineTooLong = errors.New("the line is too long")

// lines reads lines of bounded length.
type lines struct {
	r          io.Reader
	limit      int
	buf        []byte
	start, end int // the bytes that were not returned yet
}

// next returns the next line without its line feed, valid until the next call. The last
// line may lack a line feed.
func (l *lines) next() ([]byte, error) {
	scanned := 0
	for {
		if i := bytes.IndexByte(l.buf[l.start+scanned:l.end], '\n'); i >= 0 {
			line := l.buf[l.start : l.start+scanned+i]
			l.start += scanned + i + 1
			return line, nil
		}
		scanned = l.end - l.start
		if scanned > l.limit {
			return nil, errLineTooLong
		}
		if err := l.fill(); err != nil {
			if scanned > 0 && err == io.EOF {
				line := l.buf[l.start:l.end]
				l.start = l.end
				return line, nil
			}
			return nil, err
		}
	}
}

// fill reads more data, making room in the buffer first.
func (l *lines) fill() error {
	switch {
	case l.start == l.end && cap(l.buf) > keepBuffer:
		l.buf, l.start, l.end = make([]byte, firstBuffer), 0, 0
	case l.start > 0:
		copy(l.buf, l.buf[l.start:l.end])
		l.start, l.end = 0, l.end-l.start
	}
	if l.end == len(l.buf) {
		grown := make([]byte, max(firstBuffer, 2*len(l.buf)))
		copy(grown, l.buf[:l.end])
		l.buf = grown
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end += n
	if n > 0 {
		return nil
	}
	return err
}
