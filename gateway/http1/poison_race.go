//go:build race

package http1

// enabled reports whether memory is overwritten.
const enabled = true

// filler is neither valid UTF-8 nor JSON.
const filler = 0xdb

// Released overwrites the whole capacity of b. No references to b may remain.
func Released(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = filler
	}
}
