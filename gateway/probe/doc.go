// Package probe sends to every server of a configuration the requests that a running
// gateway would send, over the same transports and with the same credentials, and
// describes the results: what works, what does not work, why, and what to do about it.
//
// It changes nothing: it pins no tools, claims no names and uses no tokens of rate
// limits.
package probe
