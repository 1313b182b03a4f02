// Package session owns the Mcp-Session-Id of legacy clients: a small handle, sealed by the
// gateway, that contains the owner and the session of the default upstream, and it stores
// the sessions of a client at its upstreams.
//
// It does not use HTTP and opens no upstream session: its caller does, and passes the
// result.
package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"svc/gateway/mcp"
)

// KeySize is the length of a sealing key in bytes.
const KeySize = 32

// MaxUpstreamID bounds the session id of an upstream that a handle carries.
const MaxUpstreamID = 1 << 10

// maxHandle bounds the text that Open accepts: the length of the longest handle of Seal.
const maxHandle = 2 << 10

// ErrUnknown is returned by Open for every text that Seal did not make with the same key,
// and by the gateway for a handle of another owner: a session of another caller gets the
// same response as one that never existed.
var ErrUnknown = errors.New("unknown session")

// The first sealed byte is the layout: with versionClient, the name and the version of the
// client, each with a length prefix, precede the session id of the upstream.
const (
	versionPlain  = 1
	versionClient = 2
)

// Owner is the digest of the principal that opened a session.
type Owner [16]byte

// OwnerOf digests the parts of a principal (kind, issuer, value). The parts are
// length-prefixed, so different lists of parts never have the same digest input.
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

// ID identifies a session inside the gateway, and is the key of its upstream sessions.
type ID [16]byte

// NewID returns a random session id.
func NewID() ID {
	var id ID
	rand.Read(id[:]) // never fails (crypto/rand)
	return id
}

// String is the session's name in audit lines: it distinguishes sessions, and cannot be
// used as a handle.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:9]) }

// Handle is the content of the sealed text.
type Handle struct {
	ID    ID
	Owner Owner
	// Upstream is the session id of the default upstream; empty if it issued none.
	Upstream string
	// Client is the client's self-declared name and version when it opened the session. It
	// is in the handle so that every replica knows it, also after a restart.
	Client mcp.ClientInfo
}

// Sealer seals and opens handles with AES-256-GCM. It is safe for concurrent use.
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

// Seal returns the text of a handle: base64url, because the Mcp-Session-Id header must be
// visible ASCII. scope is additional data that the handle is bound to; nil for a handle of
// the whole gateway. It fails when h.Upstream is longer than MaxUpstreamID.
func (s *Sealer) Seal(h Handle, scope []byte) (string, error) {
	if len(h.Upstream) > MaxUpstreamID {
		return "", fmt.Errorf("upstream session id of %d bytes is over the limit of %d", len(h.Upstream), MaxUpstreamID)
	}
	name, version := h.Client.Name, h.Client.Version
	if len(name) > mcp.MaxClientName || len(version) > mcp.MaxClientVersion {
		return "", fmt.Errorf("client name of %d bytes or version of %d is over the limit", len(name), len(version))
	}
	plain := make([]byte, 0, 3+len(h.ID)+len(h.Owner)+len(name)+len(version)+len(h.Upstream))
	plain = append(plain, versionPlain)
	plain = append(plain, h.ID[:]...)
	plain = append(plain, h.Owner[:]...)
	if h.Client != (mcp.ClientInfo{}) {
		plain[0] = versionClient
		plain = append(plain, byte(len(name)), byte(len(version)))
		plain = append(append(plain, name...), version...)
	}
	plain = append(plain, h.Upstream...)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, scope)), nil
}

// Open reads a handle that Seal made for owner and scope. The error for any other text is
// ErrUnknown.
func (s *Sealer) Open(handle string, owner Owner, scope []byte) (Handle, error) {
	var h Handle
	if len(handle) > maxHandle {
		return h, ErrUnknown
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(handle)
	if err != nil {
		return h, ErrUnknown
	}
	plain, err := s.aead.Open(nil, nil, sealed, scope)
	if err != nil || len(plain) < 1+len(h.ID)+len(h.Owner) {
		return h, ErrUnknown
	}
	rest := plain[1:]
	rest = rest[copy(h.ID[:], rest):]
	rest = rest[copy(h.Owner[:], rest):]
	text := string(rest) // all strings of the handle share this memory
	switch plain[0] {
	case versionPlain:
	case versionClient:
		var ok bool
		if h.Client, text, ok = cutClient(text); !ok {
			return Handle{}, ErrUnknown
		}
	default:
		return Handle{}, ErrUnknown
	}
	h.Upstream = text
	if h.Owner != owner {
		return Handle{}, ErrUnknown
	}
	return h, nil
}

// cutClient parses the client at the beginning of a text, and returns the rest.
func cutClient(text string) (c mcp.ClientInfo, rest string, ok bool) {
	if len(text) < 2 {
		return c, "", false
	}
	name, version := int(text[0]), int(text[1])
	if text = text[2:]; len(text) < name+version {
		return c, "", false
	}
	return mcp.ClientInfo{Name: text[:name], Version: text[name : name+version]}, text[name+version:], true
}
