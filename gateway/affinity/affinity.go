// Package affinity remembers at which upstream a task was made (gateway
// specification, task_affinity), or a call is under way, so that what follows it
// finds it.
//
// It owns the map: its keys, its bound and its expiry. What a task is, who may
// ask for it and where unknown ones go is the gateway's business: an entry says
// where to ask, never that one may.
package affinity

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names one task of one principal, or one call of one session. It has a
// fixed size whatever the upstream calls the task.
type Key [16]byte

// KeyOf digests the parts that make a principal (kind, issuer, value) and the
// handle of a task. Each part is preceded by its length, so that no two lists
// of parts collide by concatenation.
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
