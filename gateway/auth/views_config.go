package auth

import (
	"slices"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/mcp/match"
	"svc/gateway/policy"
)

// The values of Config.Prompts and Config.Resources.
const (
	All  = "all"
	None = "none"
)

// ViewConfig is an entry of views.
type ViewConfig struct {
	// Name is the last part of the path, /mcp/v/NAME: 1 to 64 of A-Z a-z 0-9 _ and -.
	Name string `yaml:"name"`
	// Upstreams are the upstreams whose items the view has.
	Upstreams []string `yaml:"upstreams"`
	// Tools are globs of the names that clients see, including prefixes: the view has the
	// tools that one of them matches. Without it the view has all tools of its upstreams.
	Tools []string `yaml:"tools"`
	// Prompts is all (the prompts of its upstreams) or none.
	Prompts string `yaml:"prompts"`
	// Resources is all (the resources, resource templates and skills of its upstreams) or none.
	Resources string `yaml:"resources"`
	// Claims are conditions on the verified OAuth identity of the caller, as in rules. For
	// other callers the view does not exist. Without it every caller of the gateway may
	// use the view.
	Claims *policy.ClaimsConfig `yaml:"claims"`
}

// SetDefaults sets the documented defaults.
func (c *ViewConfig) SetDefaults() {
	c.Prompts, c.Resources = All, All
}

// Validate reports the errors of an entry. known are the names of the upstreams.
func (c *ViewConfig) Validate(at diag.At, known []string) {
	switch {
	case c.Name == "":
		at.Field("name").Hint("as in name: support, for /mcp/v/support").Errorf("required", "is required")
	case !validName(c.Name):
		at.Field("name").Hint("use 1 to 64 of the characters A-Z a-z 0-9 _ and -").
			Errorf("view-name", "%q cannot be the last part of the path", c.Name)
	}
	if len(c.Upstreams) == 0 {
		at.Field("upstreams").Hint("list the upstreams whose items the view has").Errorf("required", "a view needs an upstream")
	}
	for i, name := range c.Upstreams {
		switch at := at.Field("upstreams").Index(i); {
		case !slices.Contains(known, name):
			at.Hint("known: %s", strings.Join(known, ", ")).Errorf(policy.CodeUnknownUpstream, "no upstream is named %q", name)
		case slices.Contains(c.Upstreams[:i], name):
			at.Hint("remove it").Errorf("duplicate", "%q is listed before", name)
		}
	}
	if c.Tools != nil && len(c.Tools) == 0 {
		at.Field("tools").Hint("remove it for all tools of the upstreams").Errorf("required", "lists no tool")
	}
	for i, pattern := range c.Tools {
		if _, err := match.CompileGlob(pattern); err != nil {
			at.Field("tools").Index(i).Errorf("glob", "%q: %s", pattern, err)
		}
	}
	for _, f := range []struct{ key, value string }{{"prompts", c.Prompts}, {"resources", c.Resources}} {
		if f.value != All && f.value != None {
			at.Field(f.key).Hint("use %s or %s", All, None).Errorf("enum", "unknown value %q", f.value)
		}
	}
	if c.Claims == nil {
		return
	}
	c.Claims.Validate(at.Field("claims"))
	if c.Claims.Empty() {
		at.Field("claims").Hint("state a condition, or remove it for every caller").
			Errorf("required", "states no condition: every caller could use the view")
	}
}

// validName reports whether a text is a valid view name. A name has exactly one spelling
// in a path.
func validName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
