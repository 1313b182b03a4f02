// Package multiplex gives a client's session several upstreams: it opens the upstream
// sessions on first use and again when an upstream lost one, and ends them; it finds the
// upstream of a message that refers to an earlier one; it repeats messages for all
// upstreams, and rejects requests of upstreams on behalf of the client.
//
// The sessions are stored in [session.State]; messages are sent with a
// [upstream.Transport]. This package does not apply rules, write audit lines or respond
// to requests.
package multiplex
