// Package tolegacy lets clients of the stateless revision 2026-07-28 use an upstream
// that supports only revisions with sessions, up to 2025-11-25.
//
// It opens sessions in the place of clients and keeps them in a pool: one call at a time
// in a session, which is reused by the same principal with the same credentials, clientInfo
// and capabilities, and by nobody else. A question that the upstream asks in a call becomes
// the result input_required; the call stays open until the client sends the request again
// with its answer, or the time for that has passed. docs/generations.md lists what is
// carried and what is not.
package tolegacy
