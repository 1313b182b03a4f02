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

	"svc/gateway/policy"
)

// Bounds of tokens.
const (
	// maxTokenBytes is the longest accepted token: issuers write 200 groups of a caller into
	// about 12 KiB, and a header has room for 64 KiB.
	maxTokenBytes = 32 << 10
	// tokenUnit is the size of a token that takes one place in the cache.
	tokenUnit = 4 << 10
	// maxPrincipalBytes is the longest name of a caller.
	maxPrincipalBytes = 512
)

// badToken is the reason why a token is rejected. It is for the operator's log: the
// caller receives only invalid_token.
type badToken string

// Error returns the reason.
func (e badToken) Error() string { return "bearer token: " + string(e) }

// Is makes every rejected token an errInvalid.
func (e badToken) Is(target error) bool { return target == errInvalid }

// The reasons.
const (
	errTokenEncoding  badToken = "a part is not encoded in base64url"
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
	// Persons are the names under which the person behind the token may be known: the claims of
	// personClaims, each once.
	Persons []string

	principal Principal
	signer    print
	elsewhere bool // it is for a resource and not for the configured audience
}

// Principal returns the caller of the token. A token without such a claim is identified
// by its address, with the claims of the token (gateway specification, identity).
func (t *Token) Principal(address string) Principal {
	p := t.principal
	if p.Kind == KindIP {
		p.Value = address
	}
	return p
}

// looksLikeToken distinguishes a JSON Web Token from a key by its form: three parts, of
// which the first is the encoding of a JSON object.
func looksLikeToken(text string) bool {
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

// parseToken parses a text that looksLikeToken, once and strictly: member names are exact and may not
// repeat, so that all checks see the same token. Header members that
// locate keys (jku, jwk, x5u) are ignored.
func parseToken(text string) (*parsed, error) {
	dot := strings.IndexByte(text, '.')
	last := strings.LastIndexByte(text, '.')
	header, err := unbase64(text[:dot])
	if err != nil {
		return nil, errTokenEncoding
	}
	p := &parsed{signed: text[:last]}
	if err := p.header(header); err != nil {
		return nil, err
	}
	payload, err := unbase64(text[dot+1 : last])
	if err != nil {
		return nil, errTokenEncoding
	}
	if p.signature, err = unbase64(text[last+1:]); err != nil || len(p.signature) == 0 {
		return nil, errTokenEncoding
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
		// The same issuer signs statements of other kinds (RFC 8725, 3.11).
		switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
		case "jwt", "at+jwt":
		default:
			return errTokenType
		}
	}
	return nil
}

// check compares the claims with the requirements; one of the audiences must be the token's.
// It needs no key, so that a token for others costs no signature check.
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

// AudiencesOf returns the claim aud of a token that was verified before; nil if it has none.
func AudiencesOf(token string) []string {
	if !looksLikeToken(token) {
		return nil
	}
	p, err := parseToken(token)
	if err != nil {
		return nil
	}
	return texts(p.claims["aud"])
}

// scopes returns the scopes of scope, or of scp if scope is absent, never of both; each is a text with
// spaces or a list.
// ok is false for another form.
func (p *parsed) scopes() (list []string, ok bool) {
	raw := p.claims["scope"]
	if absent(raw) {
		raw = p.claims["scp"]
	}
	if s, ok := text(raw); ok {
		return strings.Fields(s), true
	}
	list = texts(raw)
	return list, list != nil || absent(raw)
}

// absent reports whether a claim has no value: null is none.
func absent(raw jsontext.Value) bool { return len(raw) == 0 || raw.Kind() == 'n' }

// ValidClaim reports whether a name can be that of a claim in [Identity]: one that starts with / must
// be a JSON Pointer.
func ValidClaim(name string) bool {
	return !strings.HasPrefix(name, "/") || jsontext.Pointer(name).IsValid()
}

// ClaimsOf returns what rules see of the payload of a token, a JSON object. The payload is not
// verified: it is for commands that explain what a caller with such a token may do.
func ClaimsOf(payload []byte, id Identity) (*policy.Claims, error) {
	var p parsed
	if err := json.Unmarshal(payload, &p.claims); err != nil || p.claims == nil {
		return nil, errTokenClaims
	}
	claims, _ := p.identity(id.GroupsClaim)
	return claims, nil
}

// identity returns the claims that rules use. noGroups is the reason why there are no groups, if any.
func (p *parsed) identity(groupsClaim string) (claims *policy.Claims, noGroups string) {
	claims = new(policy.Claims)
	var ok bool
	if claims.Subject, ok = text(p.claims["sub"]); !ok && !absent(p.claims["sub"]) {
		claims.Unreadable |= policy.UnreadableSubject
	}
	if claims.Scopes, ok = p.scopes(); !ok {
		claims.Unreadable |= policy.UnreadableScopes
	}
	if claims.Groups, noGroups = p.groups(groupsClaim); noGroups == groupsForm || noGroups == groupsElsewhere {
		claims.Unreadable |= policy.UnreadableGroups
	}
	return claims, noGroups
}

// claim returns the claim of a name; a name that starts with / is a JSON Pointer to a nested one.
// The result is nil if there is none; ok is false if something else than an object is in its path.
func (p *parsed) claim(name string) (at jsontext.Value, ok bool) {
	if !strings.HasPrefix(name, "/") {
		return p.claims[name], true
	}
	members := p.claims
	for token := range jsontext.Pointer(name).Tokens() {
		if at != nil {
			members = nil
			if json.Unmarshal(at, &members) != nil {
				return nil, false
			}
		}
		if at = members[token]; at == nil {
			return nil, true
		}
	}
	return at, true
}

// groups returns the groups of a claim. If these are none or not all, why has the reason.
func (p *parsed) groups(claim string) (list []string, why string) {
	raw, ok := p.claim(claim)
	list = texts(raw)
	switch {
	case p.groupsElsewhere(claim):
		return list, groupsElsewhere
	case list != nil:
		return list, ""
	case !ok || !absent(raw):
		return nil, groupsForm
	}
	return nil, groupsAbsent
}

// The reasons why a token has no groups. With all but the first the caller may be in any group.
const (
	groupsAbsent    = "the token has no such claim"
	groupsForm      = "the claim is neither a text nor a list of texts"
	groupsElsewhere = "the caller has too many groups for a token, which only refers to them (_claim_names or hasgroups, as Entra ID writes them): let the issuer write app roles, or only the groups that are assigned to the application"
)

// groupsElsewhere reports whether the claim is a distributed one (OpenID Connect Core, 5.6.2),
// or the token has the mark that Entra ID sets in place of it.
func (p *parsed) groupsElsewhere(claim string) bool {
	if strings.HasPrefix(claim, "/") { // the names are those of whole claims
		for claim = range jsontext.Pointer(claim).Tokens() {
			break
		}
	}
	if mark := p.claims["hasgroups"]; claim == "groups" && !absent(mark) && mark.Kind() != 'f' {
		return true
	}
	raw := p.claims["_claim_names"]
	if absent(raw) {
		return false
	}
	var names map[string]jsontext.Value
	return json.Unmarshal(raw, &names) != nil || names[claim] != nil
}

// name returns a claim that can identify a caller: a text, or an integer as written. An
// empty one counts as absent.
func (p *parsed) name(claim string) string {
	raw, _ := p.claim(claim)
	if s, ok := text(raw); ok {
		return s
	}
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return string(raw)
	}
	return ""
}

// personClaims are claims that can name the person behind a token.
var personClaims = []string{"sub", "email", "preferred_username", "upn", "oid"}

// persons returns the values of personClaims that can be recorded. A program that acts for itself
// (client_credentials) is no person: its token has the client as its sub (Okta, Keycloak and others,
// Auth0 with @clients), or says so (idtyp of Entra ID).
func (p *parsed) persons() (list []string) {
	if p.name("idtyp") == "app" {
		return nil
	}
	var program []string
	for _, claim := range []string{"client_id", "azp", "cid"} {
		if id := p.name(claim); id != "" {
			program = append(program, id, id+"@clients")
		}
	}
	for _, claim := range personClaims {
		if name := p.name(claim); name != "" && recordable(name) && !slices.Contains(list, name) && !slices.Contains(program, name) {
			list = append(list, name)
		}
	}
	return list
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

// texts returns a JSON string, or a list of strings. It is nil for anything else, also for a list
// with any other element.
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
