package auth

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"
)

// Bounds on ids and keys, in bytes.
const (
	// MaxIDBytes is the longest key id.
	MaxIDBytes = 128
	// MaxKeyBytes is the longest accepted key.
	MaxKeyBytes = 8 << 10
)

// keyPrefix starts every key that `svc keygen` makes.
const keyPrefix = "svc_gw_"

// secretChars is the length of 32 random bytes in base64url without padding.
const secretChars = 43

// Key is an API key that was verified. It is immutable.
type Key struct {
	// ID is the id of the entry in auth.keys.
	ID string
	// Scopes are recorded and not enforced.
	Scopes []string
	// CreatedAt is informational.
	CreatedAt time.Time
	// ExpiresAt is the time from which the key is no longer valid; zero means never.
	ExpiresAt time.Time

	hash string
}

// Principal returns the caller that holds the key.
func (k *Key) Principal() Principal {
	return Principal{Kind: KindKey, Value: k.ID, KeyID: k.ID}
}

// expired reports whether the key has expired at now.
func (k *Key) expired(now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// NewKey makes a key text for an id: svc_gw_<id>_ and 32 random bytes in base64url. The
// key is displayed once; only its [Hash] is stored in a file.
func NewKey(id string) (string, error) {
	if !ValidID(id) {
		return "", fmt.Errorf("key id %q must be 1 to %d visible ASCII characters without spaces", id, MaxIDBytes)
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", fmt.Errorf("read random key: %w", err)
	}
	return keyPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(secret[:]), nil
}

// ValidID reports whether id is a valid key id: 1 to [MaxIDBytes] visible ASCII
// characters without spaces (decision AUD1).
func ValidID(id string) bool { return len(id) <= MaxIDBytes && visible(id) }

// splitKey returns the id inside a key text in the format of [NewKey]. The secret has a
// fixed length, so an id may contain underscores (decision AUD1).
func splitKey(text string) (id string, ok bool) {
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
	return id, ValidID(id)
}

// presentable reports whether text can be a key in a header.
func presentable(text string) bool { return len(text) <= MaxKeyBytes && visible(text) }

// visible reports whether s is non-empty and contains only visible ASCII.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}
