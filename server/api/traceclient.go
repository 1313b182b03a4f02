package api

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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

// InputClient is a TraceClient in a body of POST /api/traces. Gateways of earlier
// releases send the caller in its place, as a string, which becomes Principal. A control
// plane is upgraded before its gateways, so it must still accept their traces.
type InputClient struct {
	TraceClient
	Principal string `json:"-"`
}

// UnmarshalJSONFrom reads a client object, or a caller as a string.
func (c *InputClient) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*c = InputClient{}
	if d.PeekKind() == '"' {
		return json.UnmarshalDecode(d, &c.Principal)
	}
	return json.UnmarshalDecode(d, &c.TraceClient)
}
