package auth

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
)

// Bounds of tokens.
const (
	// MaxTokenBytes is the longest accepted token.
	MaxTokenBytes = 8 << 10
	// maxPrincipalBytes is the longest name of a caller (decision TOK15).
	maxPrincipalBytes = 512
)

// badToken is the reason why a token is rejected. It is for the operator's log: the
// caller receives only invalid_token.
type badToken string

// Error returns the reason.
func (e badToken) Error() string { return "bearer token: " + string(e) }

// Is makes every rejected token an [ErrInvalid].
func (e badToken) Is(target error) bool { return target == ErrInvalid }

// The reasons.
const (
	errTokenForm      badToken = "not a JSON Web Token"
	errTokenHeader    badToken = "header is not accepted"
	errTokenCritical  badToken = "header requires an extension (crit)"
	errTokenType      badToken = "type is not that of an access token"
	errTokenAlgorithm badToken = "algorithm is not an accepted one"
	errTokenClaims    badToken = "claims are not well formed"
	errTokenIssuer    badToken = "issuer does not match auth.oauth.issuer"
	errTokenAudience  badToken = "audience does not match auth.oauth.audience"
	errTokenNoExpiry  badToken = "claim exp is missing or malformed"
	errTokenNotYet    badToken = "not valid yet (nbf)"
	errTokenKey       badToken = "signed with a key that the issuer does not publish"
	errTokenSignature badToken = "signature does not verify"
	errTokenPrincipal badToken = "claim with the caller's name cannot be recorded"
)

// Token is a bearer token that was verified. It is immutable.
type Token struct {
	// ClientID is the claim client_id, or azp if client_id is absent; may be empty.
	ClientID string
	// ExpiresAt is the claim exp.
	ExpiresAt time.Time
	// Rights is a digest of the claims without those that differ from one token of the
	// same caller to the next (exp, iat, nbf, jti, auth_time): tokens with equal rights
	// have equal digests.
	Rights [sha256.Size]byte

	principal Principal
	signer    print
	elsewhere bool // it is for a resource and not for the configured audience
}

// Principal returns the caller of the token. A token without such a claim is identified
// by its address, with the claims of the token (gateway specification, identity; decision
// TOK15).
func (t *Token) Principal(address string) Principal {
	p := t.principal
	if p.Kind == KindIP {
		p.Value = address
	}
	return p
}

// LooksLikeToken distinguishes a JSON Web Token from a key by its form: three parts, of
// which the first is the encoding of a JSON object.
func LooksLikeToken(text string) bool {
	return len(text) > 2 && text[0] == 'e' && 'w' <= text[1] && text[1] <= 'z' && strings.Count(text, ".") == 2
}

// parsed is a token that was parsed and not verified.
type parsed struct {
	alg, kid  string
	method    jwt.SigningMethod
	signed    string // the input of the signature
	signature []byte
	claims    map[string]jsontext.Value
}

// parseToken parses a token, once and strictly: member names are exact and may not
// repeat, so that all checks see the same token (decision TOK1). Header members that
// locate keys (jku, jwk, x5u) are ignored.
func parseToken(text string) (*parsed, error) {
	if len(text) > MaxTokenBytes || !LooksLikeToken(text) {
		return nil, errTokenForm
	}
	dot := strings.IndexByte(text, '.')
	last := strings.LastIndexByte(text, '.')
	header, err := unbase64(text[:dot])
	if err != nil {
		return nil, errTokenForm
	}
	p := &parsed{signed: text[:last]}
	if err := p.header(header); err != nil {
		return nil, err
	}
	payload, err := unbase64(text[dot+1 : last])
	if err != nil {
		return nil, errTokenForm
	}
	if p.signature, err = unbase64(text[last+1:]); err != nil || len(p.signature) == 0 {
		return nil, errTokenForm
	}
	if err := json.Unmarshal(payload, &p.claims); err != nil || p.claims == nil {
		return nil, errTokenClaims
	}
	return p, nil
}

func (p *parsed) header(raw []byte) error {
	var h map[string]jsontext.Value
	if err := json.Unmarshal(raw, &h); err != nil {
		return errTokenHeader
	}
	if _, critical := h["crit"]; critical {
		return errTokenCritical
	}
	var ok bool
	if p.alg, ok = text(h["alg"]); !ok {
		return errTokenAlgorithm
	}
	if p.method = algorithms[p.alg]; p.method == nil {
		return errTokenAlgorithm
	}
	if raw, there := h["kid"]; there {
		if p.kid, ok = text(raw); !ok || len(p.kid) > maxKidBytes {
			return errTokenHeader
		}
	}
	if raw, there := h["typ"]; there {
		typ, ok := text(raw)
		if !ok {
			return errTokenHeader
		}
		// The same issuer signs statements of other kinds (RFC 8725, 3.11; decision
		// TOK3).
		switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
		case "jwt", "at+jwt":
		default:
			return errTokenType
		}
	}
	return nil
}

// check compares the claims with the requirements; one of the audiences must be the token's.
// It needs no key, so that a token for others costs no signature check (decision TOK2).
func (p *parsed) check(issuer string, audiences []string, now time.Time, leeway time.Duration) (expires time.Time, err error) {
	if iss, ok := text(p.claims["iss"]); !ok || iss != issuer {
		return expires, errTokenIssuer
	}
	if !slices.ContainsFunc(audiences, p.hasAudience) {
		return expires, errTokenAudience
	}
	expires, ok := instant(p.claims["exp"])
	if !ok {
		return expires, errTokenNoExpiry
	}
	for _, name := range []string{"nbf", "iat"} {
		raw, there := p.claims[name]
		if !there {
			continue
		}
		at, ok := instant(raw)
		if !ok {
			return expires, errTokenClaims
		}
		if name == "nbf" && now.Add(leeway).Before(at) {
			return expires, errTokenNotYet
		}
	}
	if !now.Before(expires.Add(leeway)) {
		return expires, ErrExpired
	}
	return expires, nil
}

// hasAudience reports whether the token is for an audience: aud is a text or a list.
func (p *parsed) hasAudience(audience string) bool {
	for _, a := range texts(p.claims["aud"]) {
		if a == audience {
			return true
		}
	}
	return false
}

// scopes returns the scopes of scope, or of scp if scope is absent; each is a text with
// spaces or a list (decision TOK16).
func (p *parsed) scopes() []string {
	raw, there := p.claims["scope"]
	if !there {
		raw = p.claims["scp"]
	}
	if s, ok := text(raw); ok {
		return strings.Fields(s)
	}
	return texts(raw)
}

// name returns a claim that can identify a caller: a text, or an integer as written. An
// empty one counts as absent.
func (p *parsed) name(claim string) string {
	raw := p.claims[claim]
	if s, ok := text(raw); ok {
		return s
	}
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return string(raw)
	}
	return ""
}

// recordable reports whether a name can be used in logs and keys.
func recordable(name string) bool {
	return len(name) <= maxPrincipalBytes && utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsControl) < 0
}

// text returns a JSON string.
func text(raw jsontext.Value) (string, bool) {
	if len(raw) == 0 || raw.Kind() != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// texts returns a JSON string, or a list of strings. A list with any other element counts
// as empty.
func texts(raw jsontext.Value) []string {
	if s, ok := text(raw); ok {
		return []string{s}
	}
	if len(raw) == 0 || raw.Kind() != '[' {
		return nil
	}
	var values []jsontext.Value
	if json.Unmarshal(raw, &values) != nil {
		return nil
	}
	list := make([]string, 0, len(values))
	for _, v := range values {
		s, ok := text(v)
		if !ok {
			return nil
		}
		list = append(list, s)
	}
	return list
}

// instant returns a NumericDate of RFC 7519, between 1970 and the year 9999.
func instant(raw jsontext.Value) (time.Time, bool) {
	if len(raw) == 0 || raw.Kind() != '0' {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(seconds >= 0 && seconds <= 253402300799) {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// rightsOf returns the digest of Token.Rights, over the values as they are written.
func rightsOf(claims map[string]jsontext.Value) [sha256.Size]byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		switch name {
		case "exp", "iat", "nbf", "jti", "auth_time":
		default:
			fmt.Fprintf(h, "%q:%d:%s", name, len(claims[name]), claims[name])
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
