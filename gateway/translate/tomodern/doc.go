// Package tomodern lets clients with sessions, of the revisions up to 2025-11-25, use an
// upstream that supports only 2026-07-28.
//
// A session id contains the client's declarations of its initialize: the gateway stores
// nothing about the session, so that it is valid after a restart. Stored, as long as
// needed, are the server requests (here called questions) that a client has not
// answered, the calls that it may cancel, and the resources that it is subscribed to.
// docs/generations.md lists what is translated and what is not.
package tomodern
