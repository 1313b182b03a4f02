package redis

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// forgedEvery is the minimum time between two warnings about entries without a valid code.
const forgedEvery = time.Minute

// Authenticate sets the key of the message authentication codes (HMAC) of the records of replicas:
// claims, URIs, texts. Only replicas with the same key read each other's records; records of
// anybody else who can write to the store are ignored and logged. It must be called before the
// first record is written or read.
func (r *Redis) Authenticate(key []byte) error {
	derived, err := hkdf.Key(sha256.New, key, nil, "records of replicas", sha256.Size)
	r.key = derived
	return err
}

// code returns the authentication code of a record: text without spaces. The parts are the kind of
// the record, what identifies it, and its value; each is preceded by its length, so that no two
// lists of parts are the same when concatenated.
func (r *Redis) code(parts ...string) string {
	h := hmac.New(sha256.New, r.key)
	var n [8]byte
	for _, part := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// authentic returns the value in a record, which is preceded by its code and a space. ok is false
// when the code is not that of the other parts and the value.
func (r *Redis) authentic(text string, parts ...string) (value string, ok bool) {
	code, value, _ := strings.Cut(text, " ")
	if hmac.Equal([]byte(code), []byte(r.code(append(parts, value)...))) {
		return value, true
	}
	now := r.since(r.epoch)
	if last := r.forged.Load(); (last == 0 || now-time.Duration(last) >= forgedEvery) && r.forged.CompareAndSwap(last, int64(max(now, 1))) {
		r.log.Warn("the rate-limit store has a record that no replica with this session key has written: such records are ignored", "kind", parts[0],
			"fix", "give all replicas the same sessions.key_file, and gateways that are no replicas of each other different values of rate_limit_store.key_prefix; otherwise somebody else can write to the store")
	}
	return "", false
}
