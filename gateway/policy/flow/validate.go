package flow

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/policy/match"
)

// Bounds of the section.
const (
	maxEntries = 256
	maxWindow  = 7 * 24 * time.Hour
)

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Validate reports the errors of the section.
func (c *Config) Validate(at diag.At) {
	if c.Scope != ScopePrincipal && c.Scope != ScopeSession {
		at.Field("scope").Hint("use %s or %s", ScopePrincipal, ScopeSession).Errorf("enum", "scope is %q", c.Scope)
	}
	if c.Window < time.Second || c.Window > maxWindow {
		at.Field("window").Hint("as in 30m").Errorf("range", "must be from 1s to 168h, is %s", c.Window)
	}
	at = at.Field("labels")
	if len(c.Labels) > maxEntries {
		at.Hint("use tool_glob, tool_regex or tool_name_in for many tools").
			Errorf("range", "has %d entries; at most %d are allowed", len(c.Labels), maxEntries)
		return
	}
	var names []string
	for i := range c.Labels {
		c.Labels[i].validate(at.Index(i))
		names = append(names, c.Labels[i].Name)
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n > MaxNames {
		at.Hint("use one name for what the same rules restrict").Errorf("range", "has %d different names; at most %d are allowed", n, MaxNames)
	}
}

// validate reports the errors of one entry.
func (c *LabelConfig) validate(at diag.At) {
	if !namePattern.MatchString(c.Name) {
		code := "label"
		if c.Name == "" {
			code = "required"
		}
		at.Field("name").Hint("a lower-case letter, then at most 31 lower-case letters, digits, - and _, as in untrusted").
			Errorf(code, "%q is not the name of a label", c.Name)
	}
	tool := c.Tool()
	keys := tool.Keys()
	for _, m := range [...]struct {
		key   string
		given bool
	}{{"upstreams", c.Upstreams != nil}, {"uri_prefix", c.URIPrefix != nil}, {"injection_score", c.InjectionScore != nil}} {
		if m.given {
			keys = append(keys, m.key)
		}
	}
	if len(keys) != 1 {
		found := "none"
		if len(keys) > 0 {
			found = strings.Join(keys, ", ")
		}
		at.Hint("give it one of tool_name, tool_prefix, tool_glob, tool_regex, tool_name_in, upstreams, uri_prefix and injection_score, and write several entries with one name for several").
			Errorf("matcher", "an entry has exactly one matcher, found %s", found)
		return
	}
	at = at.Field(keys[0])
	switch {
	case c.Upstreams != nil && (len(c.Upstreams) == 0 || slices.Contains(c.Upstreams, "")):
		at.Hint("list the names of upstreams").Errorf("required", "an upstream is missing")
	case c.URIPrefix != nil:
		if _, err := match.CompileURI(*c.URIPrefix); err != nil {
			at.Hint("as in file:///srv/docs/ or https://wiki.example/private/").Errorf("uri", "%v", err)
		}
	case c.InjectionScore != nil && !(*c.InjectionScore > 0 && *c.InjectionScore <= 1):
		at.Hint("as in 0.8").Errorf("range", "must be above 0 and at most 1, is %v", *c.InjectionScore)
	default:
		if _, err := match.Compile(&tool); err != nil {
			at.Errorf("matcher", "%v", err)
		}
	}
}

// CheckUpstreams reports entries for upstreams that are not defined.
func (c *Config) CheckUpstreams(at diag.At, names []string) {
	for i := range c.Labels {
		for j, name := range c.Labels[i].Upstreams {
			if name != "" && !slices.Contains(names, name) {
				at.Field("labels").Index(i).Field("upstreams").Index(j).Hint("defined are: %s", strings.Join(names, ", ")).
					Errorf("unknown-upstream", "no upstream is named %q", name)
			}
		}
	}
}
