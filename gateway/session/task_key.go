package session

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key identifies one task of one principal, or one call of one session. Its size is fixed,
// whatever the length of the upstream's task id.
type Key [16]byte

// KeyOf returns the digest of the parts of a principal (kind, issuer, value) and the handle of a
// task. Each part is preceded by its length, so that no two lists of parts are the same when
// concatenated.
func KeyOf(kind, issuer, principal, task string) Key {
	h := sha256.New()
	var n [8]byte
	for _, part := range [...]string{kind, issuer, principal, task} {
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	var k Key
	copy(k[:], h.Sum(nil))
	return k
}
