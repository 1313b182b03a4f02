// Package probe asks every server that a configuration names what a running gateway
// would ask it, over the same transports and with the same credentials, and puts the
// answers into words: what works, what does not, why, and what to do about it.
//
// It changes nothing: it pins no tools, claims no names and takes no tokens of limits.
package probe
