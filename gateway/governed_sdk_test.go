package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/server/api"
)

// The official client and server work under policies, in both protocol generations and with both
// kinds of responses: redacted content arrives redacted, and a blocked call leaves the session
// open.
func TestGovernanceWithTheGoSDK(t *testing.T) {
	for name, options := range map[string]sdk.StreamableHTTPOptions{
		"2025 session, event streams":         {},
		"2025 session, JSON":                  {JSONResponse: true},
		"2026-07-28 stateless, event streams": {Stateless: true},
		"2026-07-28 stateless, JSON":          {Stateless: true, JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			up := newSDKServer(t, "up", &options)
			g := &governor{}
			g.give(requestPII("redact", "replace", "CREDIT_CARD"), requestPII("block", "", "API_KEY"), responsePII("redact", "replace", "EMAIL"),
				api.GovernancePolicy{Phase: "response", Condition: api.Condition{Type: "tool_name", ToolName: "slow"}, Action: "block"})
			r := governedRig(t, open(up.URL)+governance, g)
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			say := func(text string) (string, error) {
				got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{"text": text}})
				if err != nil {
					return "", err
				}
				return got.Content[0].(*sdk.TextContent).Text, nil
			}
			const text, want = "card " + cardNumber + " of bob@example.com", "up: card [CREDIT_CARD] of [EMAIL]"
			if got, err := say(text); got != want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
			if got, err := say("use AKIAIOSFODNN7EXAMPLE"); err == nil || !strings.Contains(err.Error(), "policy_denied") {
				t.Errorf("a key: %q, %v", got, err)
			}
			if got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "slow"}); err == nil || !strings.Contains(err.Error(), "policy_denied") {
				t.Errorf("an answer that is blocked: %v, %v", got, err)
			}
			if got, err := say("after"); got != "up: after" || err != nil {
				t.Errorf("after: %q, %v", got, err)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
