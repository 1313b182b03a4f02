package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxHashes is the largest number of secrets of one key at a time.
	MaxHashes = 4
	// MaxN is the largest number of an entry of hashes.
	MaxN = 999_999_999
)

// Bounds on ids and keys, in bytes.
const (
	// MaxIDBytes is the longest key id.
	MaxIDBytes = 128
	// maxKeyBytes is the longest accepted key.
	maxKeyBytes = 8 << 10
)

// keyPrefix starts every key that `svc keygen` makes.
const keyPrefix = "svc_gw_"

// secretChars is the length of 32 random bytes in base64url without padding.
const secretChars = 43

// Key is an API key that was verified. It is immutable.
type Key struct {
	// ID is the id of the entry in auth.keys.
	ID string
	// N is the number of the entry in hashes of the key; 0 for an entry without a number.
	N int
	// Owner is the person behind the client; empty if that is not known.
	Owner string
	// Scopes are recorded and not enforced.
	Scopes []string
	// CreatedAt is informational.
	CreatedAt time.Time
	// ExpiresAt is the time from which the key is no longer valid; zero means never.
	ExpiresAt time.Time

	hash   string
	secret Secret
	// replaceable is set for a key with the one field hash, unless it takes the place of hashes.
	replaceable bool
}

// Principal returns the caller that holds the key.
func (k *Key) Principal() Principal {
	return Principal{Kind: KindKey, Value: k.ID, KeyID: k.ID, KeyN: k.N, Secret: k.secret}
}

// Secret identifies one secret of a key without revealing it: the first bytes of the SHA-256
// of its configured hash, where the last bit is set for an entry of hashes instead. The zero value
// stands for callers without a key.
type Secret [8]byte

func secretOf(hash string, listed bool) (s Secret) {
	sum := sha256.Sum256([]byte(hash))
	copy(s[:], sum[:])
	s[len(s)-1] &^= 1
	if listed {
		s[len(s)-1] |= 1
	}
	return s
}

// listed reports whether the secret was an entry of hashes.
func (s Secret) listed() bool { return s[len(s)-1]&1 != 0 }

// same reports whether both are of one hash.
func (s Secret) same(o Secret) bool {
	s[len(s)-1] |= 1
	o[len(o)-1] |= 1
	return s == o
}

// expired reports whether the key has expired at now.
func (k *Key) expired(now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// NewKey makes a key text for an id: svc_gw_<id>_ and 32 random bytes in base64url. For the
// entry n of hashes the id is <id>.<n>. The key is displayed once; only its [Hash] is stored
// in a file.
func NewKey(id string) (string, error) {
	if base, _, _ := CutN(id); !ValidID(base) {
		return "", fmt.Errorf("key id %q must be 1 to %d visible ASCII characters without spaces", base, MaxIDBytes)
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", fmt.Errorf("read random key: %w", err)
	}
	return keyPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(secret[:]), nil
}

// ValidID reports whether id is a valid key id: 1 to [MaxIDBytes] visible ASCII
// characters without spaces.
func ValidID(id string) bool { return len(id) <= MaxIDBytes && visible(id) }

// CutN splits the text between the prefix and the secret of a key into the id and the
// number of an entry of hashes: the digits after the last dot, from 1 to [MaxN] without
// leading zeros. Without such a number ok is false, and id is the whole text.
func CutN(text string) (id string, n int, ok bool) {
	dot := strings.LastIndexByte(text, '.')
	if dot < 1 {
		return text, 0, false
	}
	digits := text[dot+1:]
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > MaxN || strconv.Itoa(n) != digits {
		return text, 0, false
	}
	return text[:dot], n, true
}

// SplitKey returns the id, with the number of an entry of hashes if the key has one, inside a key text in the format of [NewKey]. The secret has a
// fixed length, so an id may contain underscores.
func SplitKey(text string) (id string, ok bool) {
	end := len(text) - secretChars - 1
	if end <= len(keyPrefix) || text[:len(keyPrefix)] != keyPrefix || text[end] != '_' {
		return "", false
	}
	for i := end + 1; i < len(text); i++ {
		c := text[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return "", false
		}
	}
	id = text[len(keyPrefix):end]
	base, _, _ := CutN(id)
	return id, ValidID(base)
}

// presentable returns an error if text cannot be a key in a header.
func presentable(text string) error {
	switch {
	case len(text) > maxKeyBytes:
		return errKeySize
	case !visible(text):
		return errCharacters
	}
	return nil
}

// visible reports whether s is non-empty and contains only visible ASCII.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}
