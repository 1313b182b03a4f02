package mcp

// Session is a session at one server, as its client knows it. Both fields are empty
// before initialize.
type Session struct {
	// ID is the id that the server gave; empty for a server without sessions, and in
	// the stateless revision.
	ID string
	// Version is the protocol revision that was agreed on; empty where none was.
	Version string
}
