//go:build race

package poison

// enabled reports whether memory is overwritten.
const enabled = true

// filler is no UTF-8 and no JSON.
const filler = 0xdb

// Released overwrites the whole capacity of b, which nobody may refer to any more.
func Released(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = filler
	}
}
