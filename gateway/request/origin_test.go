package request

import (
	"net/http"
	"testing"
)

func TestOriginAndHost(t *testing.T) {
	tests := []struct {
		name         string
		listen       string
		Rules, hosts []string
		public, host string
		origin       []string
		want         bool
	}{
		{name: "no origin", listen: "127.0.0.1:8090", host: "127.0.0.1:8090", want: true},
		{name: "loopback origin", listen: "127.0.0.1:8090", host: "localhost:8090", origin: []string{"http://localhost:3000"}, want: true},
		{name: "IPv6 loopback", listen: "[::1]:8090", host: "[::1]:8090", origin: []string{"http://[::1]"}, want: true},
		{name: "foreign origin", listen: "127.0.0.1:8090", host: "127.0.0.1:8090", origin: []string{"https://evil.example.com"}},
		{name: "null origin", listen: "127.0.0.1:8090", host: "127.0.0.1:8090", origin: []string{"null"}},
		{name: "two origins", listen: "127.0.0.1:8090", host: "127.0.0.1:8090", origin: []string{"http://localhost", "http://localhost"}},
		{name: "rebound host on a loopback listener", listen: "127.0.0.1:8090", host: "evil.example.com:8090"},
		{name: "rebound host that is its own origin", listen: "127.0.0.1:8090", host: "evil.example.com", origin: []string{"http://evil.example.com"}},
		{name: "any host on a public listener", listen: "0.0.0.0:8090", host: "mcp.example.com", want: true},
		{name: "same host is no defence on a public listener", listen: "0.0.0.0:8090", host: "mcp.example.com", origin: []string{"https://mcp.example.com"}},
		{name: "a listed origin", listen: "0.0.0.0:8090", Rules: []string{"https://App.example.com/"}, host: "mcp.example.com", origin: []string{"https://app.example.com"}, want: true},
		{name: "listing origins replaces loopback", listen: "0.0.0.0:8090", Rules: []string{"https://app.example.com"}, host: "mcp.example.com", origin: []string{"http://localhost"}},
		{name: "a listed host", listen: "127.0.0.1:8090", hosts: []string{"mcp.example.com"}, host: "MCP.example.com:443", want: true},
		{name: "the host of public_url", listen: "127.0.0.1:8090", public: "https://Gateway.example/base", host: "gateway.EXAMPLE:443", want: true},
		{name: "the host of public_url beside listed ones", listen: "0.0.0.0:8090", public: "https://gateway.example:8443", hosts: []string{"mcp.example.com"}, host: "gateway.example:8443", want: true},
		{name: "another host than that of public_url", listen: "127.0.0.1:8090", public: "https://gateway.example", host: "evil.example"},
		{name: "the host of public_url is no origin", listen: "127.0.0.1:8090", public: "https://gateway.example", host: "gateway.example", origin: []string{"https://gateway.example"}},
		{name: "a host that is not listed", listen: "0.0.0.0:8090", hosts: []string{"mcp.example.com"}, host: "localhost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Request{Host: tt.host, Header: http.Header{}}
			if tt.origin != nil {
				r.Header["Origin"] = tt.origin
			}
			if got := NewOriginRules(tt.listen, tt.public, tt.Rules, tt.hosts, "").Permit(r); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
