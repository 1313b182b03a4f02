// Package session owns what a legacy client sees as its Mcp-Session-Id: a
// small handle, sealed by the gateway, that names the owner and the session of
// the default upstream, and the sessions of a client at the several upstreams
// that it is routed to.
//
// It does not use HTTP and opens no upstream session: the gateway does, and
// tells this package what came of it.
package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// KeySize is the length of a sealing key in bytes.
const KeySize = 32

// MaxUpstreamID bounds the session id of an upstream that a handle carries.
const MaxUpstreamID = 1 << 10

// maxHandle bounds what Open looks at: the longest handle that Seal makes.
const maxHandle = 2 << 10

// ErrUnknown is returned by Open for anything that Seal did not make with the
// same key, and by the gateway for a handle of another owner: a stranger's
// session is answered exactly like one that never was.
var ErrUnknown = errors.New("unknown session")

// version leads the sealed bytes, so that the layout can change.
const version = 1

// Owner is the digest of the principal that opened a session.
type Owner [16]byte

// OwnerOf digests the parts that make a principal (kind, issuer, value). The
// parts are length-prefixed, so no two lists of parts collide by concatenation.
func OwnerOf(parts ...string) Owner {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		for i := range n {
			n[i] = byte(len(p) >> (8 * i))
		}
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var o Owner
	copy(o[:], h.Sum(nil))
	return o
}

// ID names a session inside the gateway; its upstream sessions are kept under it.
type ID [16]byte

// NewID returns a random session name.
func NewID() ID {
	var id ID
	rand.Read(id[:]) // never fails (crypto/rand)
	return id
}

// String names the session in audit lines: enough to tell sessions apart, and
// nothing that anybody could present.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:9]) }

// Handle is what the sealed text holds.
type Handle struct {
	ID    ID
	Owner Owner
	// Upstream is the session id that the default upstream made; empty where
	// it made none.
	Upstream string
}

// Sealer makes and opens handles with AES-256-GCM. It is safe for concurrent
// use.
type Sealer struct {
	aead cipher.AEAD
}

// NewSealer returns a Sealer for a key of KeySize bytes.
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("session key has %d bytes, want %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead: aead}, nil
}

// Seal returns the text of a handle: base64url, so visible ASCII as the
// Mcp-Session-Id header asks. It fails when h.Upstream is longer than
// MaxUpstreamID.
func (s *Sealer) Seal(h Handle) (string, error) {
	if len(h.Upstream) > MaxUpstreamID {
		return "", fmt.Errorf("upstream session id of %d bytes is over the limit of %d", len(h.Upstream), MaxUpstreamID)
	}
	plain := make([]byte, 0, 1+len(h.ID)+len(h.Owner)+len(h.Upstream))
	plain = append(plain, version)
	plain = append(plain, h.ID[:]...)
	plain = append(plain, h.Owner[:]...)
	plain = append(plain, h.Upstream...)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil)), nil
}

// Open reads a handle that Seal made for owner. Every other text is
// ErrUnknown.
func (s *Sealer) Open(text string, owner Owner) (Handle, error) {
	var h Handle
	if len(text) > maxHandle {
		return h, ErrUnknown
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return h, ErrUnknown
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil || len(plain) < 1+len(h.ID)+len(h.Owner) || plain[0] != version {
		return h, ErrUnknown
	}
	rest := plain[1:]
	rest = rest[copy(h.ID[:], rest):]
	rest = rest[copy(h.Owner[:], rest):]
	h.Upstream = string(rest)
	if h.Owner != owner {
		return Handle{}, ErrUnknown
	}
	return h, nil
}
