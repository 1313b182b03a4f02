package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"svc/gateway/mcp"
)

// keySize is the length of a sealing key in bytes.
const keySize = 32

// MaxUpstreamID bounds the session id of an upstream that a handle carries.
const MaxUpstreamID = 1 << 10

// MaxHandleParams bounds the parameters of initialize that a handle carries.
const MaxHandleParams = 1 << 10

// maxHandle bounds the text that Open accepts: the longest handle of Seal has 2,967 bytes.
const maxHandle = 3 << 10

// ErrUnknown is returned by Open for every text that Seal did not make with the same key,
// and by the gateway for a handle of another owner: a session of another caller gets the
// same response as one that never existed.
var ErrUnknown = errors.New("unknown session")

// layout is the first sealed byte: the id, the owner, the secret, the time of opening, the lengths of
// the client's name, version and parameters, all three of them, and the session id of the upstream
// follow it. A change of the layout takes a new value, so that a handle of another layout is unknown.
const layout = 2

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
	// Secret identifies the secret with which the owner opened the session; zero without one.
	Secret [8]byte
	// Opened is when the request that opened the session began, in nanoseconds since 1970.
	Opened int64
	// Upstream is the session id of the default upstream; empty if it issued none.
	Upstream string
	// Client is the client's self-declared name and version when it opened the session. It
	// is in the handle so that every replica knows it, also after a restart.
	Client mcp.ClientInfo
	// Params are the parameters of the client's initialize, with which sessions at upstreams are
	// opened, without what does not fit; empty if nothing fits. They are in the handle because the
	// stored ones are lost at a restart, and with them what the client can be asked.
	Params string
}

// fixedFields is the length of ID, Owner, Secret and Opened in a handle.
const fixedFields = len(ID{}) + len(Owner{}) + 8 + 8

// Sealer seals and opens handles with AES-256-GCM. It is safe for concurrent use.
type Sealer struct {
	aead cipher.AEAD
}

// NewSealer returns a Sealer for a key of keySize bytes.
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("session key has %d bytes, want %d", len(key), keySize)
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
// the whole gateway. It fails when h.Upstream is longer than MaxUpstreamID, or
// h.Params than MaxHandleParams.
func (s *Sealer) Seal(h Handle, scope []byte) (string, error) {
	if len(h.Upstream) > MaxUpstreamID {
		return "", fmt.Errorf("upstream session id of %d bytes is over the limit of %d", len(h.Upstream), MaxUpstreamID)
	}
	name, version := h.Client.Name, h.Client.Version
	if len(name) > mcp.MaxClientName || len(version) > mcp.MaxClientVersion {
		return "", fmt.Errorf("client name of %d bytes or version of %d is over the limit", len(name), len(version))
	}
	if len(h.Params) > MaxHandleParams {
		return "", fmt.Errorf("parameters of initialize of %d bytes are over the limit of %d", len(h.Params), MaxHandleParams)
	}
	plain := make([]byte, 0, 1+fixedFields+lengths+len(name)+len(version)+len(h.Params)+len(h.Upstream))
	plain = append(plain, layout)
	plain = append(plain, h.ID[:]...)
	plain = append(plain, h.Owner[:]...)
	plain = append(plain, h.Secret[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(h.Opened))
	plain = append(plain, byte(len(name)), byte(len(version)))
	plain = binary.BigEndian.AppendUint16(plain, uint16(len(h.Params)))
	plain = append(append(append(plain, name...), version...), h.Params...)
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
	if err != nil || len(plain) < 1+fixedFields {
		return h, ErrUnknown
	}
	rest := plain[1:]
	rest = rest[copy(h.ID[:], rest):]
	rest = rest[copy(h.Owner[:], rest):]
	rest = rest[copy(h.Secret[:], rest):]
	h.Opened, rest = int64(binary.BigEndian.Uint64(rest)), rest[8:]
	var ok bool
	h.Client, h.Params, h.Upstream, ok = cutTexts(string(rest)) // all strings of the handle share this memory
	if plain[0] != layout || !ok || h.Owner != owner {
		return Handle{}, ErrUnknown
	}
	return h, nil
}

// lengths is the length of the lengths of a handle's texts.
const lengths = 1 + 1 + 2

// cutTexts parses the texts at the end of a handle.
func cutTexts(text string) (c mcp.ClientInfo, params, upstream string, ok bool) {
	if len(text) < lengths {
		return c, "", "", false
	}
	name, version, size := int(text[0]), int(text[1]), int(text[2])<<8|int(text[3])
	if text = text[lengths:]; len(text) < name+version+size {
		return c, "", "", false
	}
	c = mcp.ClientInfo{Name: text[:name], Version: text[name : name+version]}
	text = text[name+version:]
	return c, text[:size], text[size:], true
}
