// Package client sends the gateway's own messages to an upstream, and finds out which protocol
// generation the upstream supports.
//
// # Generation
//
// Generation detects which protocol generation an upstream supports: the one with
// sessions, up to 2025-11-25, which begins with initialize, or the stateless one of 2026-07-28,
// which begins with server/discover. Package translate uses the result.
//
// # Messages
//
// Mcpclient sends the gateway's own messages to an upstream: it opens and ends
// sessions, sends the gateway's own requests, repeats at one upstream what a client sent
// to another, and rejects requests of the upstream. It owns the form of these messages,
// and finds the response to a request among the returned frames.
//
// It keeps no state and opens no connections: its callers own both.
package client
