package catalog

import (
	"strings"
	"testing"

	"svc/gateway/mcp"
)

func mustNames(t *testing.T, list ...Naming) *Names {
	t.Helper()
	n, err := NewNames(list)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestVisibleNames(t *testing.T) {
	n := mustNames(t,
		Naming{Upstream: "files", Prefix: "files_"},
		Naming{Upstream: "deep", Prefix: "files_deep_"},
		Naming{Upstream: "web", Prefix: "web_", Allow: []string{"get*", "very_long_name", "b"}, Deny: []string{"get_admin*"}, Rename: map[string]string{"very_long_name": "search", "b": "getx"}},
		Naming{Upstream: "plain"},
	)
	tests := []struct {
		upstream string
		kind     mcp.ListKind
		own      string
		visible  string
		why      Reason
	}{
		{"files", mcp.Tool, "read", "files_read", ""},
		{"files", mcp.Prompt, "read", "files_read", ""},
		{"files", mcp.Resource, "file:///a", "file:///a", ""},
		{"files", mcp.Tool, "deep_read", "", ReasonClaimed}, // the prefix of another upstream
		{"deep", mcp.Tool, "read", "files_deep_read", ""},
		{"plain", mcp.Tool, "files_x", "", ReasonClaimed},
		{"plain", mcp.Tool, "read", "read", ""},
		{"plain", mcp.Tool, "two words", "", ReasonName},
		{"plain", mcp.Tool, strings.Repeat("x", MaxVisible+1), "", ReasonName},
		{"plain", mcp.Tool, strings.Repeat("x", MaxVisible), strings.Repeat("x", MaxVisible), ""},
		{"files", mcp.Tool, strings.Repeat("x", MaxVisible-5), "", ReasonName},
		{"web", mcp.Tool, "get", "web_get", ""},
		{"web", mcp.Tool, "get_admin", "", ReasonHidden},
		{"web", mcp.Tool, "put", "", ReasonHidden},
		{"web", mcp.Prompt, "put", "web_put", ""}, // allow and deny apply to tools only
		{"web", mcp.Tool, "very_long_name", "web_search", ""},
		{"web", mcp.Tool, "getx", "", ReasonClaimed}, // the configuration renames b to the name
		{"web", mcp.Tool, "b", "web_getx", ""},
		{"unknown", mcp.Tool, "a", "", ReasonHidden},
	}
	for _, tt := range tests {
		visible, why := n.Visible(tt.upstream, tt.kind, tt.own)
		if visible != tt.visible || why != tt.why {
			t.Errorf("%s %s %q: %q, %q; want %q, %q", tt.upstream, tt.kind, tt.own, visible, why, tt.visible, tt.why)
		}
		if why != "" {
			continue
		}
		if own, ok := n.Own(tt.upstream, tt.kind, visible); !ok || own != tt.own {
			t.Errorf("%s %s %q: translated back it is %q, %v", tt.upstream, tt.kind, visible, own, ok)
		}
	}
}

// A tool has one visible name: neither its own name nor one without the prefix refers to it.
func TestOtherNamesLeadNowhere(t *testing.T) {
	n := mustNames(t,
		Naming{Upstream: "web", Prefix: "web_", Deny: []string{"admin"}, Rename: map[string]string{"long": "short"}},
		Naming{Upstream: "deep", Prefix: "web_deep_"},
	)
	for _, visible := range []string{"get", "long", "web_long", "web_admin", "web_deep_x", "", "web_", "Web_get"} {
		if own, ok := n.Own("web", mcp.Tool, visible); ok {
			t.Errorf("%q leads to %q", visible, own)
		}
	}
}

func TestNamingErrors(t *testing.T) {
	tests := []struct {
		name string
		list []Naming
		want string
	}{
		{"equal prefixes", []Naming{{Upstream: "a", Prefix: "p_"}, {Upstream: "b", Prefix: "p_"}}, `"a" and "b" have the same prefix`},
		{"one upstream twice", []Naming{{Upstream: "a"}, {Upstream: "a"}}, "named twice"},
		{"a prefix with a blank", []Naming{{Upstream: "a", Prefix: "p "}}, `upstream "a": prefix: "p "`},
		{"a long prefix", []Naming{{Upstream: "a", Prefix: strings.Repeat("p", 33)}}, "prefix"},
		{"a bad glob", []Naming{{Upstream: "a", Deny: []string{"[a"}}}, "tools.deny"},
		{"equal results", []Naming{{Upstream: "a", Rename: map[string]string{"x": "z", "y": "z"}}}, `"x" and "y" both become "z"`},
		{"a bad result", []Naming{{Upstream: "a", Rename: map[string]string{"x": "z z"}}}, "tools.rename"},
	}
	for _, tt := range tests {
		if _, err := NewNames(tt.list); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
