package upstream

import (
	"errors"
	"fmt"

	"svc/gateway/base/diag"
	"svc/gateway/mcp/match"
)

// Route is one element of the routes section (gateway specification, routes).
type Route struct {
	// Match selects the tools of the route.
	Match Match `yaml:"match"`
	// Upstream is the name of a known upstream.
	Upstream string `yaml:"upstream"`
}

// Match holds exactly one matcher of a tool name. Names are flat and
// case-sensitive.
type Match struct {
	// ToolName matches one name exactly; * matches every name.
	ToolName string `yaml:"tool_name"`
	// ToolPrefix matches names that start with it.
	ToolPrefix string `yaml:"tool_prefix"`
	// ToolGlob is a shell-style pattern: *, ? and character classes.
	ToolGlob string `yaml:"tool_glob"`
	// ToolRegex is RE2 syntax, anchored to the full name.
	ToolRegex string `yaml:"tool_regex"`
	// ToolNameIn matches any of the listed names exactly.
	ToolNameIn []string `yaml:"tool_name_in"`

	// These conditions belong to policy rules; a route that has one of them
	// is rejected with an error of its own.
	Method    string `yaml:"method"`
	Direction string `yaml:"direction"`
	Claims    any    `yaml:"claims"`
}

// Validate reports the errors of one route; its caller checks that its upstream exists.
func (r *Route) Validate(at diag.At) {
	if r.Upstream == "" {
		at.Field("upstream").Errorf("required", "a route needs the name of an upstream")
	}
	r.Match.Validate(at.Field("match"))
}

// Validate reports the errors of the matcher.
func (m *Match) Validate(at diag.At) {
	refuse := func(name string, set bool) {
		if set {
			at.Field(name).Hint("routes match tool names only; put this condition on a policy rule").
				Errorf("route-field", "is not allowed in a route")
		}
	}
	refuse("method", m.Method != "")
	refuse("direction", m.Direction != "")
	refuse("claims", m.Claims != nil)

	written := m.Tool()
	if n := len(written.Keys()); n != 1 {
		at.Hint("use one of tool_name, tool_prefix, tool_glob, tool_regex, tool_name_in").
			Errorf("matcher", "a route needs exactly one matcher, this one has %d", n)
	}
	if m.ToolGlob != "" {
		if err := match.CheckGlob(m.ToolGlob); err != nil {
			at.Field("tool_glob").Errorf("glob", "%s", err)
		}
	}
	if m.ToolRegex != "" {
		if err := checkRegex(m.ToolRegex); err != nil {
			at.Field("tool_regex").Errorf("regex", "%s", err)
		}
	}
	if m.ToolNameIn != nil && len(m.ToolNameIn) == 0 {
		at.Field("tool_name_in").Errorf("required", "lists no name")
	}
	for i, name := range m.ToolNameIn {
		if name == "" {
			at.Field("tool_name_in").Index(i).Errorf("required", "is empty")
		}
	}
}

// Tool is the matcher of the route; an empty text is an absent key.
func (m *Match) Tool() match.Written {
	given := func(s *string) *string {
		if *s == "" {
			return nil
		}
		return s
	}
	return match.Written{
		Name: given(&m.ToolName), Prefix: given(&m.ToolPrefix), Glob: given(&m.ToolGlob), Regex: given(&m.ToolRegex), NameIn: m.ToolNameIn,
	}
}

// checkRegex returns what is wrong with a tool_regex.
func checkRegex(pattern string) error {
	if len(pattern) > 4096 {
		return errors.New("is longer than 4096 bytes")
	}
	if err := match.CheckRegex(pattern); err != nil {
		return fmt.Errorf("does not compile: %w", err)
	}
	return nil
}
