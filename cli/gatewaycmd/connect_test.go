package gatewaycmd

import (
	"os"
	"strings"
	"testing"

	"svc/cli/clients"
)

// The page shows what 'svc connect' prints.
func TestThePageShowsWhatConnectPrints(t *testing.T) {
	page, err := os.ReadFile("../../docs/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients.Clients() {
		if c.Path == nil {
			if !strings.Contains(string(page), "`"+c.Name+"`") && !strings.Contains(string(page), "svc connect "+c.Name) {
				t.Errorf("%s is not on the page", c.Name)
			}
			continue
		}
		s := &clients.Server{Name: "svc", URL: "https://gateway.example.com/mcp", KeyEnv: defaultKeyEnv, AskKey: true, Program: "/usr/local/bin/svc"}
		if c.NeedsProgram() {
			s.KeyFile = "/home/me/.config/svc/gateway-key"
		}
		text, err := c.Snippet(s)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n"+string(text)+"\n```") {
			t.Errorf("%s: the page lacks\n%s", c.Name, text)
		}
	}
}
