package api

import "strings"

// Bounds on the name and version of a client.
const (
	MaxClientName    = 64
	MaxClientVersion = 32
)

// TraceClient is the name and version that the caller's program gives itself (clientInfo
// of MCP). They are not verified.
type TraceClient struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// String returns the name and the version.
func (c TraceClient) String() string { return strings.TrimSpace(c.Name + " " + c.Version) }
