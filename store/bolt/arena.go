package bolt

// arena allocates the keys and values of one transaction, which bbolt refers to
// until the transaction ends. Its memory is reused by the next transaction.
type arena struct {
	chunks [][]byte
	next   int // the current chunk is chunks[next-1]
}

const (
	arenaChunk = 64 << 10
	arenaKeep  = 256 // chunks that stay allocated for the next transaction
)

// space returns an empty slice with capacity n. It is valid until the next call
// of space, or until reset if it is passed to keep.
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

// keep retains the bytes that were appended to the slice of the last space call.
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

// reset frees all slices for reuse.
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
