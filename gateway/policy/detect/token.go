package detect

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// TokenStrategy replaces a finding by [ENTITY~TEXT], where TEXT is the value itself, encrypted. A
// [Tokens] applies it, because it needs to know for whom.
const TokenStrategy Strategy = "token"

// MaxTokenValue is the size of the longest value that a token can hold, in bytes.
const MaxTokenValue = 256

// maxTokenText is the length of the longest TEXT: the name of the key, nonce, value and tag in
// base64.
const maxTokenText = (1 + tokenNonce + MaxTokenValue + tokenTag + 2) / 3 * 4

const (
	tokenNonce = 12
	tokenTag   = 16
)

// Tokens makes and opens the tokens of one tenant. Equal values of one context have equal tokens,
// so that a model can compare them. It is immutable and safe for concurrent use.
type Tokens struct {
	keys []tokenKey // the first makes tokens, all open them
}

// tokenKey is the two keys that are derived from one secret: one for the nonces, one for AES.
type tokenKey struct {
	name  byte // the first byte of a TEXT
	nonce []byte
	aead  cipher.AEAD
}

// TokenContext is what a token is bound to, beside its tenant and its entity: nobody else can have
// it opened.
type TokenContext struct {
	// Agent is the agent that received the value.
	Agent string
	// Upstream is the upstream that sent the value.
	Upstream string
}

// NewTokens derives the keys of a tenant from secrets, the current one first, with
// HKDF-SHA-256. tenant is the tenant's own key, which is no secret of the gateway.
func NewTokens(tenant []byte, secrets ...[]byte) (*Tokens, error) {
	if len(secrets) == 0 {
		return nil, errors.New("there is no key for tokens")
	}
	t := new(Tokens)
	for _, secret := range secrets {
		derive := func(purpose string, n int) ([]byte, error) {
			return hkdf.Key(sha256.New, secret, tenant, "svc redaction token: "+purpose, n)
		}
		name, err := derive("name", 1)
		if err != nil {
			return nil, err
		}
		k := tokenKey{name: name[0]}
		if k.nonce, err = derive("nonce", sha256.Size); err != nil {
			return nil, err
		}
		encryption, err := derive("encryption", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(encryption)
		if err != nil {
			return nil, err
		}
		if k.aead, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		t.keys = append(t.keys, k)
	}
	return t, nil
}

// Append appends the token of a value, of at most [MaxTokenValue] bytes.
func (t *Tokens) Append(dst []byte, c TokenContext, e Entity, value []byte) []byte {
	k := &t.keys[0]
	bound := c.bound(e)
	// The nonce depends on everything that is encrypted or authenticated with it: it repeats for
	// an equal token alone.
	mac := hmac.New(sha256.New, k.nonce)
	mac.Write(bound)
	mac.Write(value)
	text := append(make([]byte, 0, 1+tokenNonce+len(value)+tokenTag), k.name)
	text = append(text, mac.Sum(nil)[:tokenNonce]...)
	text = k.aead.Seal(text, text[1:], value, bound)
	dst = append(append(append(dst, '['), e...), '~')
	dst = base64.RawURLEncoding.AppendEncode(dst, text)
	return append(dst, ']')
}

// decodeToken decodes a TEXT into buf; ok is false when no token has it.
func decodeToken(buf *[maxTokenText]byte, text []byte) (raw []byte, ok bool) {
	if len(text) > maxTokenText || bytes.ContainsAny(text, "\r\n") { // the base64 decoder ignores line ends
		return nil, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(buf[:], text)
	return buf[:n], err == nil && n > 1+tokenNonce+tokenTag
}

// bound returns the context in a form in which no two contexts are equal.
func (c TokenContext) bound(e Entity) []byte {
	b := make([]byte, 0, len(e)+len(c.Agent)+len(c.Upstream)+8)
	for _, s := range []string{string(e), c.Agent, c.Upstream} {
		b = append(b, byte(len(s)>>24), byte(len(s)>>16), byte(len(s)>>8), byte(len(s)))
		b = append(b, s...)
	}
	return b
}

// TokenFault is why a text that looks like a token is none that may be put back.
type TokenFault string

// The faults, as clients see them.
const (
	// TokenInvalid: it does not open: it was changed, or made for another agent or tenant.
	TokenInvalid TokenFault = "token_invalid"
	// TokenElsewhere: it opens, and may not be put back where it is.
	TokenElsewhere TokenFault = "token_elsewhere"
)

// Restoring puts the values of tokens back into texts. It is used for one message.
type Restoring struct {
	Tokens *Tokens
	Agent  string
	// From are the upstreams whose tokens may be put back, Others the ones whose tokens may not,
	// so that a fault can be named.
	From, Others []string
	// Left is how many more times a key is tried on a token, with one upstream each. It is negative
	// when there were not enough.
	Left int
}

// Restored is a token that was put back, or could not be.
type Restored struct {
	Entity Entity
	Fault  TokenFault // empty when it was put back
	Value  []byte     // what was put back
}

// Restore appends text to dst with the values of the tokens in it, and calls note for each text
// that looks like a token: a known entity in capitals behind a bracket, and a tilde. One that
// cannot be put back remains as it is. Nothing more is put back once note returns false.
func (r *Restoring) Restore(dst, text []byte, note func(Restored) (more bool)) []byte {
	for more := true; ; {
		start, e, body := nextToken(text)
		if start < 0 || !more {
			return append(dst, text...)
		}
		dst = append(dst, text[:start]...)
		end := bytes.IndexByte(body[:min(len(body), maxTokenText+1)], ']')
		head := len(text) - len(body)
		if end < 0 {
			more = note(Restored{Entity: e, Fault: TokenInvalid})
			dst, text = append(dst, text[start:head]...), body
			continue
		}
		value, fault := r.open(e, body[:end])
		if more = note(Restored{e, fault, value}); fault != "" {
			value = text[start : head+end+1]
		}
		dst, text = append(dst, value...), body[end+1:]
	}
}

// open returns the value of a token, or its fault.
func (r *Restoring) open(e Entity, text []byte) (value []byte, fault TokenFault) {
	var buf [maxTokenText]byte
	raw, ok := decodeToken(&buf, text)
	if !ok {
		return nil, TokenInvalid
	}
	for i, from := range r.From {
		if value, ok := r.openFrom(from, e, raw); ok {
			r.From[0], r.From[i] = r.From[i], r.From[0] // most tokens of a message have one source
			return value, ""
		}
	}
	for _, from := range r.Others {
		if _, ok := r.openFrom(from, e, raw); ok {
			return nil, TokenElsewhere
		}
	}
	return nil, TokenInvalid
}

// openFrom returns the value of a decoded token of an upstream.
func (r *Restoring) openFrom(upstream string, e Entity, raw []byte) (value []byte, ok bool) {
	for i := range r.Tokens.keys {
		k := &r.Tokens.keys[i]
		if k.name != raw[0] || r.Left < 0 {
			continue
		}
		if r.Left--; r.Left < 0 {
			break
		}
		bound := TokenContext{r.Agent, upstream}.bound(e)
		if value, err := k.aead.Open(nil, raw[1:1+tokenNonce], raw[1+tokenNonce:], bound); err == nil {
			return value, true
		}
	}
	return nil, false
}

// HasToken returns the entity of the first text that looks like a token.
func HasToken(text []byte) (Entity, bool) {
	start, e, _ := nextToken(text)
	return e, start >= 0
}

// HasWholeToken returns the entity of the first text that could be a token: one with an end, and
// with what every token contains.
func HasWholeToken(text []byte) (Entity, bool) {
	var buf [maxTokenText]byte
	for {
		start, e, body := nextToken(text)
		if start < 0 {
			return "", false
		}
		if end := bytes.IndexByte(body[:min(len(body), maxTokenText+1)], ']'); end >= 0 {
			if _, ok := decodeToken(&buf, body[:end]); ok {
				return e, true
			}
		}
		text = body
	}
}

// nextToken returns where the next text that looks like a token begins, its entity, and what
// follows its tilde; start is -1 when there is none.
func nextToken(text []byte) (start int, e Entity, body []byte) {
	for at := 0; ; {
		tilde := bytes.IndexByte(text[at:], '~')
		if tilde < 0 {
			return -1, "", nil
		}
		tilde += at
		for _, e := range tokenEntities {
			start := tilde - len(e) - 1
			if start >= 0 && text[start] == '[' && string(text[start+1:tilde]) == string(e) {
				return start, e, text[tilde+1:]
			}
		}
		at = tilde + 1
	}
}

// tokenEntities are the entities of tokens.
var tokenEntities = Entities()
