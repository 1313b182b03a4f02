package views

import (
	"net/url"
	"strings"
	"testing"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/diag"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

func TestWhatAViewShows(t *testing.T) {
	s := New([]Config{
		{Name: "all", Upstreams: []string{"crm", "web"}, Prompts: All, Resources: All},
		{Name: "some", Upstreams: []string{"crm"}, Tools: []string{"crm_get_*", "x"}, Prompts: None, Resources: None},
	})
	for _, tt := range []struct {
		view     string
		kind     catalog.Kind
		upstream string
		visible  string
		want     bool
	}{
		{"all", catalog.Tool, "crm", "anything", true},
		{"all", catalog.Tool, "files", "anything", false},
		{"all", catalog.Tool, "", "anything", false},
		{"all", catalog.Prompt, "web", "p", true},
		{"all", catalog.Template, "web", "t://{x}", true},
		{"all", catalog.Resource, "files", "t://x", false},
		{"some", catalog.Tool, "crm", "crm_get_all", true},
		{"some", catalog.Tool, "crm", "x", true},
		{"some", catalog.Tool, "crm", "crm_set", false},
		{"some", catalog.Tool, "web", "x", false},
		{"some", catalog.Prompt, "crm", "x", false},
		{"some", catalog.Resource, "crm", "x", false},
		{"some", catalog.Template, "crm", "x", false},
	} {
		if got := s.byName[tt.view].Shows(tt.kind, tt.upstream, tt.visible); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	var none *View
	if !none.Shows(catalog.Tool, "any", "any") || !none.Has("any") || none.Scope() != nil || none.String() != "" || none.Admit(&auth.Principal{}) != nil {
		t.Error("a nil view is all that there is")
	}
}

// A view that does not exist is empty, even if a caller does not check whether it admits
// anybody.
func TestAViewThatThereIsNot(t *testing.T) {
	s := New([]Config{{Name: "one", Upstreams: []string{"crm"}, Claims: &policy.ClaimsConfig{SubjectIn: []string{"alice"}}}})
	for path, name := range map[string]string{"/mcp/v/two": "two", "/mcp/v/": "", "/mcp/v/a/b": "", "/mcp/v/one%2f": "", "/mcp/v/%6fne": "", "/mcp/v/ONE": "ONE", "/mcp/v/" + strings.Repeat("x", 65): ""} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		v, ok := s.At(u)
		if !ok || v == nil || v.Name != name || v.Has("crm") || v.Has("") || v.Shows(catalog.Tool, "crm", "x") || v.Admit(&auth.Principal{}) != &refusal.UnknownView || len(v.Scope()) == 0 {
			t.Errorf("%s: %+v %v", path, v, ok)
		}
	}
	v, _ := s.At(&url.URL{Path: "/mcp/v/one"})
	if v.Admit(&auth.Principal{Claims: &policy.Claims{Subject: "alice"}}) != nil || v.Admit(&auth.Principal{Claims: &policy.Claims{Subject: "bob"}}) != &refusal.ViewDenied || v.Admit(&auth.Principal{}) != &refusal.ViewDenied {
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
	good := func(change func(*Config)) Config {
		c := Config{Name: "one", Upstreams: []string{"crm"}}
		c.SetDefaults()
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name, want string // the path of the finding; empty for none
		c          Config
	}{
		{"good", "", good(func(c *Config) { c.Tools, c.Prompts = []string{"crm_*"}, None })},
		{"no name", "name", good(func(c *Config) { c.Name = "" })},
		{"a path", "name", good(func(c *Config) { c.Name = "a/b" })},
		{"dots", "name", good(func(c *Config) { c.Name = ".." })},
		{"letters of another script", "name", good(func(c *Config) { c.Name = "süd" })},
		{"long", "name", good(func(c *Config) { c.Name = strings.Repeat("x", 65) })},
		{"no upstream", "upstreams", good(func(c *Config) { c.Upstreams = nil })},
		{"an unknown upstream", "upstreams[1]", good(func(c *Config) { c.Upstreams = []string{"crm", "CRM"} })},
		{"an upstream twice", "upstreams[1]", good(func(c *Config) { c.Upstreams = []string{"crm", "crm"} })},
		{"no tools", "tools", good(func(c *Config) { c.Tools = []string{} })},
		{"a bad pattern", "tools[0]", good(func(c *Config) { c.Tools = []string{"[a"} })},
		{"prompts", "prompts", good(func(c *Config) { c.Prompts = "" })},
		{"resources", "resources", good(func(c *Config) { c.Resources = "some" })},
		{"empty claims", "claims", good(func(c *Config) { c.Claims = &policy.ClaimsConfig{} })},
		{"an empty group", "claims.groups[0]", good(func(c *Config) { c.Claims = &policy.ClaimsConfig{Groups: []string{""}} })},
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
