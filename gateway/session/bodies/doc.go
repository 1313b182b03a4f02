// Package bodies bounds the bytes of request and response bodies in memory, for all callers
// together and for each caller.
package bodies
