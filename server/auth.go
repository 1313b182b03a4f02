package server

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"svc/store"
	"svc/store/api"
)

// Bounds on the random part of an API key in a request, in characters. Keys that the server
// creates have 43 characters: 256 random bits.
const (
	minSecret = 32
	maxSecret = 128
)

// NewSecret returns the text of a new API key: the prefix of its scope and 256 random bits
// (control-plane specification, API keys, 2).
func NewSecret(scope store.KeyScope) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails since Go 1.24
	return api.KeyPrefixes[string(scope)] + base64.RawURLEncoding.EncodeToString(b[:])
}

// SecretScope returns the scope that the prefix of a key claims, and whether the text has
// the form of a key: a known prefix, then 32 to 128 characters of A-Z, a-z, 0-9, _ and -.
func SecretScope(secret string) (store.KeyScope, error) {
	for _, scope := range api.KeyScopes {
		random, ok := strings.CutPrefix(secret, api.KeyPrefixes[scope])
		if !ok {
			continue
		}
		if len(random) < minSecret || len(random) > maxSecret || !isBase64URL(random) {
			return "", fmt.Errorf("the part after %s must be %d to %d characters of A-Z, a-z, 0-9, _ and -",
				api.KeyPrefixes[scope], minSecret, maxSecret)
		}
		return store.KeyScope(scope), nil
	}
	return "", fmt.Errorf("an API key begins with svc_api_, svc_agent_ or svc_ingest_")
}

// SecretPrefix returns the part of a key that may be shown after its creation: the prefix
// of its scope and four more characters.
func SecretPrefix(secret string) string {
	scope, err := SecretScope(secret)
	if err != nil {
		return ""
	}
	return secret[:len(api.KeyPrefixes[string(scope)])+4]
}

func isBase64URL(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}

// authenticate finds the key of a request by its one Authorization header. It queries the
// store for every request, so a key that was deleted or deactivated before the request is
// rejected. The error is the same for every reason.
func (s *Server) authenticate(c *call) error {
	cred, err := s.credential(c)
	if err != nil {
		return err
	}
	c.key, c.team = cred.Key, cred.Team
	c.tenant, c.traces = s.records.Tenant(cred.TenantID), s.traces.TracesOf(cred.TenantID)
	c.tenant.RecordKeyUse(c.key.ID, c.now)
	return nil
}

// credential returns the credential of a request.
func (s *Server) credential(c *call) (store.Credential, error) {
	if find := inProcess(c.Context()); find != nil {
		cred, err := find(c.Context())
		if store.KindOf(err) == store.Unauthorized {
			err = errUnauthorized
		}
		return cred, err
	}
	values := c.Header.Values("Authorization")
	if len(values) != 1 {
		return store.Credential{}, errUnauthorized
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.Trim(secret, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return store.Credential{}, errUnauthorized
	}
	scope, err := SecretScope(secret)
	if err != nil {
		return store.Credential{}, errUnauthorized
	}
	cred, err := s.records.Authenticate(c.Context(), store.DigestKey(secret))
	switch {
	case store.KindOf(err) == store.Unauthorized:
		return cred, errUnauthorized
	case err != nil:
		return cred, fmt.Errorf("authenticate: %w", err)
	case cred.Key.Scope != scope:
		return cred, errUnauthorized
	}
	return cred, nil
}

// permit checks the key's scope against the route, and then the scopes of the team that
// limits the key, if any. Team limits do not apply to keys of scope ingest: gateways use
// them, and no team scope covers what they allow.
func (c *call) permit() error {
	if !slices.Contains(c.route.keys, c.key.Scope) {
		return forbidden("a key of scope %s may not call this endpoint", c.key.Scope)
	}
	if c.team == nil || c.key.Scope == store.ScopeIngest {
		return nil
	}
	if c.route.unlimited {
		instead := "one without a team"
		if slices.Contains(c.route.keys, store.ScopeIngest) {
			instead = "a key of scope ingest"
		}
		return forbidden("a key of scope %s that is limited to a team may not call this endpoint; use %s", c.key.Scope, instead)
	}
	if len(c.route.team) == 0 {
		return nil
	}
	for _, scope := range c.route.team {
		if slices.Contains(c.team.Scopes, scope) {
			return nil
		}
	}
	return forbidden("the team that this key is limited to lacks the scope %s", strings.Join(c.route.team, " or "))
}

// missingScope returns the first of the team scopes that the calling key does not hold;
// empty when it holds them all. A key without a team holds every scope. A key must not
// grant a scope that it does not hold.
func (c *call) missingScope(scopes []string) (missing string) {
	if c.team == nil {
		return ""
	}
	for _, scope := range scopes {
		if !slices.Contains(c.team.Scopes, scope) {
			return scope
		}
	}
	return ""
}
