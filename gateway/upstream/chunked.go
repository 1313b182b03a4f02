package upstream

import (
	"bytes"
	"io"
)

const (
	maxChunkLine = 256      // the size of a chunk and its extensions
	maxTrailer   = 2 << 10  // all trailer lines; they are discarded
	maxOverhead  = 64 << 10 // see chunks.overhead
)

// chunks is the state of a chunked body (RFC 9112, section 7.1).
type chunks struct {
	at chunkPosition
	// overhead is how many bytes of framing there were beyond what the data
	// excuses, so that a body of one-byte chunks with long extensions ends.
	overhead int
	trailer  int   // bytes of trailer lines so far
	failed   error // found behind data that had to be delivered first
}

type chunkPosition uint8

const (
	atChunkSize chunkPosition = iota
	inChunkData
	atChunkEnd
	inTrailer
)

// readChunked decodes into p what is buffered, and waits only while it has
// nothing to return. When the last chunk is there already, io.EOF comes together
// with the last data.
func (b *body) readChunked(p []byte) (int, error) {
	if b.chunks.failed != nil {
		return 0, b.chunks.failed
	}
	n := 0
	for {
		switch b.chunks.at {
		case inChunkData:
			if n == len(p) || n > 0 && len(b.cn.unread()) == 0 {
				return n, nil
			}
			m, err := b.receive(p[n:min(int64(len(p)), int64(n)+b.remaining)], directChunk)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return n, err
			}
			n += m
			if b.remaining -= int64(m); b.remaining == 0 {
				b.chunks.at = atChunkEnd
			}
		default:
			line, ok, err := b.line()
			if err == nil && ok {
				err = b.step(line)
			}
			if err != nil {
				if n > 0 && err != io.EOF { // the data before it first
					b.chunks.failed = err
					return n, nil
				}
				return n, err
			}
			if ok {
				continue
			}
			if n > 0 {
				return n, nil
			}
			if err := b.more(); err != nil {
				return 0, err
			}
		}
	}
}

// line takes a line of the framing from the buffer; ok is false when it is not
// complete yet.
func (b *body) line() (line []byte, ok bool, err error) {
	unread := b.cn.unread()
	limit := maxChunkLine
	if b.chunks.at == inTrailer {
		limit = maxTrailer
	}
	i := bytes.IndexByte(unread[:min(len(unread), limit)], '\n')
	switch {
	case i < 0 && len(unread) >= limit:
		return nil, false, invalidf("a line of the chunked framing is longer than %d bytes", limit)
	case i < 0:
		return nil, false, nil
	case i == 0 || unread[i-1] != '\r':
		return nil, false, invalidf("a line of the chunked framing does not end with CR LF")
	}
	b.cn.r += i + 1
	return unread[:i-1], true, nil
}

// step takes one line and moves on. It returns io.EOF after the last one.
func (b *body) step(line []byte) error {
	c := &b.chunks
	switch c.at {
	case atChunkEnd:
		if len(line) > 0 {
			return invalidf("a chunk is longer than its size says")
		}
		c.at = atChunkSize
	case atChunkSize:
		size, err := parseChunkSize(line)
		if err != nil {
			return err
		}
		if size == 0 {
			c.at = inTrailer
			return nil
		}
		// A line of 16 bytes is excused, and two more for each byte of data.
		c.overhead = max(0, c.overhead+len(line)-16-2*int(min(size, maxOverhead)))
		if c.overhead > maxOverhead {
			return invalidf("the chunked framing is larger than its data")
		}
		c.at, b.remaining = inChunkData, size
	default:
		if len(line) == 0 {
			return io.EOF
		}
		if c.trailer += len(line) + 2; c.trailer > maxTrailer {
			return invalidf("the trailer is larger than %d bytes", maxTrailer)
		}
		if _, err := parseField(string(line)); err != nil {
			return err
		}
	}
	return nil
}

// parseChunkSize reads the size and checks the extensions, which mean nothing to
// us.
func parseChunkSize(line []byte) (int64, error) {
	digits := line
	if i := bytes.IndexByte(line, ';'); i >= 0 {
		digits = bytes.TrimRight(line[:i], " \t")
		for _, c := range line[i:] {
			if !isValue[c] {
				return 0, invalidf("a chunk extension holds a control character")
			}
		}
	}
	if len(digits) == 0 || len(digits) > 15 { // 60 bits
		return 0, invalidf("chunk size %.20q", digits)
	}
	var n int64
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, invalidf("chunk size %.20q", digits)
		}
		n = n<<4 | int64(c)
	}
	return n, nil
}
