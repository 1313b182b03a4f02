// Package license reads, checks and issues the license file of the gateway: a
// JWT signed with Ed25519 that carries its own grace window.
//
// It says in which state the license is; what follows from that (readiness, the
// end of the process at start) is the gateway's to decide. Where the build's own
// public key comes from is the caller's to know.
package license
