// Package auth determines who calls and what the caller may reach: API keys, tokens, the license of
// the gateway, and views.
//
//	header ── key_header.go ──┬──▶ key    key_verify.go   known digest, or argon2id behind a limit
//	          oauth_header.go │            key_cache.go, key_known.go, key_limit.go, key_hash.go
//	                          └──▶ token  oauth.go        signature, issuer, audience, times
//	                                       oauth_token.go, jwks.go (the keys of an issuer), jwk.go
//	                                   │
//	                                   ▼
//	                               Principal ──▶ views.go   which items of the lists it may see
//
// The callers of the package write the response of a rejected request and use the principal (rules,
// limits, audit).
//
// A [Verifier] exists as long as the process: it holds the state that outlives reloads,
// namely the keys that verified before and the limit on verifications in flight. A
// [Keyring] is the immutable set of keys of one configuration snapshot; each reload
// builds a new one with the same Verifier.
//
// # License
//
// The files license*.go read, verify and issue the license of the gateway: a JWT signed with Ed25519
// that contains its own grace period. The gateway decides about the consequences of its state
// (readiness, exit at the start). The caller provides the public key of the build.
//
// # Views
//
// A view is the part of the merged lists that a gateway serves under a path of its own,
// /mcp/v/NAME: which items it has, who may use it, and which request is at it. A view only takes
// away: what it leaves is judged as at /mcp.
package auth
