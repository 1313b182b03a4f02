package auth

import (
	"net/url"
	"strings"
	"testing"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

func TestWhatAViewShows(t *testing.T) {
	s := New([]ViewConfig{
		{Name: "all", Upstreams: []string{"crm", "web"}, Prompts: All, Resources: All},
		{Name: "some", Upstreams: []string{"crm"}, Tools: []string{"crm_get_*", "x"}, Prompts: None, Resources: None},
	})
	for _, tt := range []struct {
		view     string
		kind     mcp.ListKind
		upstream string
		visible  string
		want     bool
	}{
		{"all", mcp.Tool, "crm", "anything", true},
		{"all", mcp.Tool, "files", "anything", false},
		{"all", mcp.Tool, "", "anything", false},
		{"all", mcp.Prompt, "web", "p", true},
		{"all", mcp.Template, "web", "t://{x}", true},
		{"all", mcp.Resource, "files", "t://x", false},
		{"some", mcp.Tool, "crm", "crm_get_all", true},
		{"some", mcp.Tool, "crm", "x", true},
		{"some", mcp.Tool, "crm", "crm_set", false},
		{"some", mcp.Tool, "web", "x", false},
		{"some", mcp.Prompt, "crm", "x", false},
		{"some", mcp.Resource, "crm", "x", false},
		{"some", mcp.Template, "crm", "x", false},
	} {
		if got := s.byName[tt.view].Shows(tt.kind, tt.upstream, tt.visible); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	var none *View
	if !none.Shows(mcp.Tool, "any", "any") || !none.Has("any") || none.Scope() != nil || none.String() != "" || none.Admit(&Principal{}) != nil {
		t.Error("a nil view is all that there is")
	}
}

// A view that does not exist is empty, even if a caller does not check whether it admits
// anybody.
func TestAViewThatThereIsNot(t *testing.T) {
	s := New([]ViewConfig{{Name: "one", Upstreams: []string{"crm"}, Claims: &policy.ClaimsConfig{SubjectIn: []string{"alice"}}}})
	for path, name := range map[string]string{"/mcp/v/two": "two", "/mcp/v/": "", "/mcp/v/a/b": "", "/mcp/v/one%2f": "", "/mcp/v/%6fne": "", "/mcp/v/ONE": "ONE", "/mcp/v/" + strings.Repeat("x", 65): ""} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		v, ok := s.At(u)
		if !ok || v == nil || v.Name != name || v.Has("crm") || v.Has("") || v.Shows(mcp.Tool, "crm", "x") || v.Admit(&Principal{}) != &refusal.UnknownView || len(v.Scope()) == 0 {
			t.Errorf("%s: %+v %v", path, v, ok)
		}
	}
	v, _ := s.At(&url.URL{Path: "/mcp/v/one"})
	if v.Admit(&Principal{Claims: &policy.Claims{Subject: "alice"}}) != nil || v.Admit(&Principal{Claims: &policy.Claims{Subject: "bob"}}) != &refusal.ViewDenied || v.Admit(&Principal{}) != &refusal.ViewDenied {
		t.Error("claims are not asked for")
	}
	if v, ok := s.At(&url.URL{Path: "/mcp"}); !ok || v != nil {
		t.Error("/mcp is no view")
	}
	if _, ok := New(nil).At(&url.URL{Path: "/mcp/v/one"}); ok {
		t.Error("without views no path is one")
	}
}

func TestValidate(t *testing.T) {
	good := func(change func(*ViewConfig)) ViewConfig {
		c := ViewConfig{Name: "one", Upstreams: []string{"crm"}}
		c.SetDefaults()
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name, want string // the path of the finding; empty for none
		c          ViewConfig
	}{
		{"good", "", good(func(c *ViewConfig) { c.Tools, c.Prompts = []string{"crm_*"}, None })},
		{"no name", "name", good(func(c *ViewConfig) { c.Name = "" })},
		{"a path", "name", good(func(c *ViewConfig) { c.Name = "a/b" })},
		{"dots", "name", good(func(c *ViewConfig) { c.Name = ".." })},
		{"letters of another script", "name", good(func(c *ViewConfig) { c.Name = "süd" })},
		{"long", "name", good(func(c *ViewConfig) { c.Name = strings.Repeat("x", 65) })},
		{"no upstream", "upstreams", good(func(c *ViewConfig) { c.Upstreams = nil })},
		{"an unknown upstream", "upstreams[1]", good(func(c *ViewConfig) { c.Upstreams = []string{"crm", "CRM"} })},
		{"an upstream twice", "upstreams[1]", good(func(c *ViewConfig) { c.Upstreams = []string{"crm", "crm"} })},
		{"no tools", "tools", good(func(c *ViewConfig) { c.Tools = []string{} })},
		{"a bad pattern", "tools[0]", good(func(c *ViewConfig) { c.Tools = []string{"[a"} })},
		{"prompts", "prompts", good(func(c *ViewConfig) { c.Prompts = "" })},
		{"resources", "resources", good(func(c *ViewConfig) { c.Resources = "some" })},
		{"empty claims", "claims", good(func(c *ViewConfig) { c.Claims = &policy.ClaimsConfig{} })},
		{"an empty group", "claims.groups[0]", good(func(c *ViewConfig) { c.Claims = &policy.ClaimsConfig{Groups: []string{""}} })},
	} {
		r := diag.New()
		tt.c.Validate(r.Root(), []string{"crm", "web"})
		var paths []string
		for _, f := range r.Findings() {
			paths = append(paths, f.Path)
		}
		if got := strings.Join(paths, " "); got != tt.want {
			t.Errorf("%s: findings at %q, want %q", tt.name, got, tt.want)
		}
	}
}
