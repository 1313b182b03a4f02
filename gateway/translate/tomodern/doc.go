// Package tomodern lets clients with sessions, of the revisions up to 2025-11-25, use an
// upstream that supports 2026-07-28 alone.
//
// A session is a text that says what the client declared in its initialize: nothing of
// it is kept here, so that it outlives a restart. What is kept, for as long as it is
// needed, are the questions that a client was asked and has not answered, the calls that
// it may cancel, and the resources that it subscribed to. docs/generations.md lists what
// is carried and what is not.
package tomodern
