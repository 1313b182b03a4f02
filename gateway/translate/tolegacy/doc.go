// Package tolegacy lets clients of the revision 2026-07-28, which has no sessions, use an
// upstream that supports only revisions with sessions, up to 2025-11-25.
//
// It opens sessions on behalf of clients and keeps them in a pool: a session has one call
// at a time and is reused only for the same principal with the same credentials, clientInfo
// and capabilities. A server request during a call, here called a question, becomes the
// result input_required; the call is held until the client sends the request again with its
// answer, or a timeout. docs/generations.md lists what is translated and what is not.
package tolegacy
