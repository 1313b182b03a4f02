package mcp

// Session is a session at one server, as its client knows it. Both fields are empty
// before initialize.
type Session struct {
	// ID is the session id that the server issued; empty for a server without
	// sessions, and in the revisions without sessions.
	ID string
	// Version is the negotiated protocol revision; empty if none was negotiated.
	Version string
}
