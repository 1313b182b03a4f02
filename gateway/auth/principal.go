package auth

import (
	"strconv"

	"svc/gateway/policy"
)

// Kind is the way in which a principal is identified.
type Kind uint8

// The kinds of principals. Principals of different kinds share nothing, even when their
// values are equal.
const (
	// KindIP is a caller that is identified by its address only.
	KindIP Kind = iota
	// KindKey is the holder of an API key; the value is the key id.
	KindKey
	// KindOAuth is the subject of a verified token of an issuer.
	KindOAuth
)

// String returns the kind as in principal_kind of audit lines.
func (k Kind) String() string {
	switch k {
	case KindKey:
		return "key"
	case KindOAuth:
		return "oauth"
	default:
		return "ip"
	}
}

// Principal is the caller of a request.
type Principal struct {
	// Kind is the way in which the caller is identified.
	Kind Kind
	// Issuer is the token issuer of an OAuth caller.
	Issuer string
	// Value is the address, the key id or the principal claim.
	Value string
	// KeyID is the id of the API key that was presented, also where a token is
	// the identity.
	KeyID string
	// KeyN is the number of the entry in hashes of this key; 0 without one.
	KeyN int
	// Secret identifies the secret that was presented; zero without a key. Callers with
	// different secrets of one key are the same caller.
	Secret Secret
	// Claims are the claims of a verified token; nil for other callers.
	Claims *policy.Claims
}

// AppendKey appends a text that is equal for two principals exactly when they are the
// same caller. The text is a map key and is not displayed.
func (p *Principal) AppendKey(dst []byte) []byte {
	dst = append(dst, '0'+byte(p.Kind))
	dst = strconv.AppendInt(dst, int64(len(p.Issuer)), 10)
	dst = append(dst, ':')
	dst = append(dst, p.Issuer...)
	return append(dst, p.Value...)
}

// Same reports whether p and q are the same caller.
func (p *Principal) Same(q *Principal) bool {
	return p.Kind == q.Kind && p.Issuer == q.Issuer && p.Value == q.Value
}
