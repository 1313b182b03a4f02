// Package credentials gets the tokens that the gateway sends to upstreams: its own, those of each
// caller, and those of an operator's login.
//
// # Credentials
//
// Credentials provides the tokens that the gateway sends to upstreams.
//
// No token is logged. Tokens are only in memory, except those of an operator's login, which
// grant.go stores. PerCaller keeps the tokens of callers, of whatever section: exchange and idJAG
// only request them. The grants of idJAG (ID-JAG) are used once and kept nowhere.
//
// # Endpoint
//
// Endpoint requests tokens from OAuth token endpoints. Such an endpoint is an external
// server: its responses are bounded in size and time, its redirects are not followed, and of its
// error responses only the OAuth error code is used. Its client authenticates with a secret, or with
// a ClientKey.
//
// # Grant
//
// Grant stores the grants of operators at the authorization servers of upstreams: one
// file for each upstream, with mode 0600 in state_dir. Processes that share the folder share the
// grants; a process that replaces a token holds the lock of its file.
//
// # Login
//
// Login logs an operator in at the authorization server of an upstream: it discovers the
// server (RFC 9728, RFC 8414), registers the gateway there if it has no client account (RFC
// 7591), requests an authorization with PKCE (RFC 7636) for one resource (RFC 8707), waits on
// loopback for the redirect of the browser (RFC 8252) and exchanges the code for tokens.
//
// Its input comes from external servers: every response is bounded, redirects are not followed,
// and only https addresses are used, or loopback ones if the upstream is on loopback.
package credentials
