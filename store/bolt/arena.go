package bolt

// arena is memory for the keys and values of one transaction, which bbolt refers
// to until it is over. It is used again by the next one.
type arena struct {
	chunks [][]byte
	next   int // the chunk in use is chunks[next-1]
}

const (
	arenaChunk = 64 << 10
	arenaKeep  = 256 // chunks that are kept for the next transaction
)

// space returns an empty slice with room for n bytes, valid until the next call
// of space, or for good once given to keep.
func (a *arena) space(n int) []byte {
	if a.next > 0 {
		if c := a.chunks[a.next-1]; cap(c)-len(c) >= n {
			return c[len(c):len(c):cap(c)]
		}
	}
	if n > arenaChunk {
		return make([]byte, 0, n)
	}
	if a.next == len(a.chunks) {
		a.chunks = append(a.chunks, make([]byte, 0, arenaChunk))
	}
	a.next++
	return a.chunks[a.next-1][:0:arenaChunk]
}

// keep keeps what was appended to the last space.
func (a *arena) keep(b []byte) []byte {
	if a.next == 0 {
		return b[:len(b):len(b)]
	}
	c := a.chunks[a.next-1]
	if len(b) > 0 && cap(c) > len(c) && &c[:len(c)+1][len(c)] == &b[0] {
		a.chunks[a.next-1] = c[:len(c)+len(b)]
	}
	return b[:len(b):len(b)]
}

// reset gives everything back.
func (a *arena) reset() {
	if len(a.chunks) > arenaKeep {
		clear(a.chunks[arenaKeep:])
		a.chunks = a.chunks[:arenaKeep]
	}
	for i := range a.chunks {
		a.chunks[i] = a.chunks[i][:0]
	}
	a.next = 0
}
