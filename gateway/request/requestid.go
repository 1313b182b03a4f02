package request

import (
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// NewID returns a UUIDv7 (RFC 9562). It is time-ordered, so that traces with this
// id are appended at the end of an index. It is not a secret: the generator is
// fast, not cryptographic.
func NewID(now time.Time) string {
	var b [16]byte
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	hi, lo := rand.Uint64(), rand.Uint64()
	b[6], b[7] = 0x70|byte(hi>>8)&0x0f, byte(hi)
	for i := range 8 {
		b[8+i] = byte(lo >> (8 * i))
	}
	b[8] = b[8]&0x3f | 0x80

	var text [36]byte
	hex.Encode(text[0:8], b[0:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:36], b[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
