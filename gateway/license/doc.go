// Package license reads, verifies and issues the license file of the gateway: a JWT signed with
// Ed25519 that contains its own grace period.
//
// It reports the state of the license; the gateway decides about the consequences (readiness,
// exit at the start). The caller provides the public key of the build.
package license
