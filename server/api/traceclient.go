package api

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of what a client calls itself.
const (
	MaxClientName    = 64
	MaxClientVersion = 32
)

// TraceClient is what the caller's program calls itself (clientInfo of MCP). Nothing of
// it is verified.
type TraceClient struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// String is the name and the version.
func (c TraceClient) String() string { return strings.TrimSpace(c.Name + " " + c.Version) }

// InputClient is a TraceClient in a body of POST /api/traces. Gateways of earlier builds
// send the caller in its place, as a string: Principal. A control plane is upgraded
// before its gateways, so that their traces must still be accepted.
type InputClient struct {
	TraceClient
	Principal string `json:"-"`
}

// UnmarshalJSONFrom reads a client or a caller.
func (c *InputClient) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*c = InputClient{}
	if d.PeekKind() == '"' {
		return json.UnmarshalDecode(d, &c.Principal)
	}
	return json.UnmarshalDecode(d, &c.TraceClient)
}
