package config

import (
	"strings"
	"testing"
)

// An upstream that is the gateway itself is found if the two texts must mean the same address,
// and only then.
func TestUpstreamAtTheGatewaysOwnAddress(t *testing.T) {
	for _, tt := range []struct {
		listen, url string
		found       bool
	}{
		{"127.0.0.1:8090", "http://127.0.0.1:8090/mcp", true},
		{"127.0.0.1:8090", "http://localhost:8090/other", true},
		{"127.0.0.1:8090", "http://127.0.0.1:8091/mcp", false},
		{"127.0.0.1:8090", "http://127.0.0.2:8090/mcp", false},
		{"127.0.0.1:8090", "http://[::1]:8090/mcp", false},
		{"127.0.0.1:8090", "http://tools.example:8090/mcp", false},
		{"localhost:8090", "http://127.0.0.1:8090/mcp", true},
		{"0.0.0.0:8090", "http://127.0.0.1:8090/mcp", true},
		{"0.0.0.0:8090", "http://[::1]:8090/mcp", false},
		{"0.0.0.0:8090", "http://10.0.0.5:8090/mcp", false},
		{":8090", "http://[::1]:8090/mcp", true},
		{"[::]:8090", "http://127.0.0.1:8090/mcp", true},
		{"[::1]:8090", "http://[::1]:8090/mcp", true},
		{"10.0.0.5:8090", "http://10.0.0.5:8090/mcp", true},
		{"gateway.example:443", "https://Gateway.example/mcp", true},
		{"gateway.example:80", "http://gateway.example/mcp", true},
		{"127.0.0.1:0", "http://127.0.0.1:0/mcp", false},
	} {
		t.Run(tt.listen+" "+tt.url, func(t *testing.T) {
			text := "listen: \"" + tt.listen + "\"\nlicense: {path: /l}\nupstreams: [{name: a, url: \"" + tt.url + "\"}]\npolicy: {default_action: deny}\naudit: {path: /a}\n"
			_, found := Parse("svc.yaml", []byte(text), nil)
			got := ""
			for _, f := range found {
				if f.Code == "upstream-is-gateway" {
					got = f.Path
				}
			}
			if got != "" != tt.found || tt.found && !strings.HasPrefix(got, "upstreams[0].url") {
				t.Errorf("found at %q, want a finding: %v (%v)", got, tt.found, found)
			}
		})
	}
}

// No configuration removes the hop count of loop detection or forwards that of a client.
func TestTheHopHeaderIsTheGatewaysOwn(t *testing.T) {
	text := "listen: 127.0.0.1:1\nlicense: {path: /l}\nupstreams: [{name: a, url: \"http://h.example/\", headers: {svc-hops: \"0\"}}]\npolicy: {default_action: deny}\naudit: {path: /a}\nforward_headers: [SVC-HOPS]\n"
	_, found := Parse("svc.yaml", []byte(text), nil)
	var paths []string
	for _, f := range found {
		if f.Code == "header" {
			paths = append(paths, f.Path)
		}
	}
	if strings.Join(paths, " ") != "upstreams[0].headers.svc-hops forward_headers[0]" {
		t.Errorf("errors at %q: %v", paths, found)
	}
}
