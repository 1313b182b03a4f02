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
	// overhead counts the bytes of framing that exceed an allowance for the data. It
	// bounds a body of one-byte chunks with long extensions.
	overhead int
	trailer  int   // bytes of trailer lines so far
	failed   error // the error is returned after the data before it was delivered
}

type chunkPosition uint8

const (
	atChunkSize chunkPosition = iota
	inChunkData
	atChunkEnd
	inTrailer
)

// readChunked decodes buffered data into p, and waits only while it has nothing to
// return. When the last chunk is already buffered, io.EOF is returned together with the
// last data.
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
				if n > 0 && err != io.EOF { // data that precedes the error is returned first
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

// line takes a line of the framing from the buffer; ok is false when the line is
// incomplete.
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

// step processes one line. It returns io.EOF after the last line.
func (b *body) step(line []byte) error {
	c := &b.chunks
	switch c.at {
	case atChunkEnd:
		if len(line) > 0 {
			return invalidf("a chunk is longer than its declared size")
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
		// The allowance is 16 bytes per line, and two more for each byte of data.
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

// parseChunkSize parses the size and validates the extensions, which are ignored.
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
