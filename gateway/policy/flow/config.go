package flow

import (
	"time"

	"svc/gateway/mcp/match"
)

// Config is the section data_flow of the gateway file.
type Config struct {
	// Scope says whose the labels are: with principal the caller's, whatever session, client name or
	// trace id it has; with session those of the MCP session where there is one, else the caller's.
	Scope string `yaml:"scope"`
	// Window is the time after which a label ends, counted from the last message that set it; from 1s
	// to 168h.
	Window time.Duration `yaml:"window"`
	// Labels is at most 256 entries, with at most 16 names, each of which says what sets a label.
	Labels []LabelConfig `yaml:"labels"`
}

// Values of Scope.
const (
	ScopePrincipal = "principal"
	ScopeSession   = "session"
)

// LabelConfig is one entry of labels: a name and exactly one matcher.
type LabelConfig struct {
	// Name is the label: a lower-case letter, then lower-case letters, digits, - and _, at most 32
	// characters. Several entries may have one name.
	Name string `yaml:"name"`
	// ToolName is the exact name of a tool, as clients see it.
	ToolName *string `yaml:"tool_name"`
	// ToolPrefix is the prefix of the name of the tool.
	ToolPrefix *string `yaml:"tool_prefix"`
	// ToolGlob is a shell-style pattern: *, ? and character classes.
	ToolGlob *string `yaml:"tool_glob"`
	// ToolRegex is an RE2 expression that must match the whole name.
	ToolRegex *string `yaml:"tool_regex"`
	// ToolNameIn lists exact names.
	ToolNameIn []string `yaml:"tool_name_in"`
	// Upstreams lists names of upstreams; every message of one of them with text of its own sets the
	// label.
	Upstreams []string `yaml:"upstreams"`
	// URIPrefix is a scheme, as in file:, or a URI; a read of it or of what is below it sets the label, and so do
	// contents, links and entries of skills with such a URI. Case, escapes, dot segments and doubled slashes do not
	// matter, and a URI that servers may read in different ways counts as one of them. With several merged
	// upstreams, skill:// and ui:// addresses begin with the name of the upstream, as clients see them.
	URIPrefix *string `yaml:"uri_prefix"`
	// InjectionScore sets the label for any answer that scores this much, above 0 and at most 1.
	InjectionScore *float64 `yaml:"injection_score"`
}

// Tool is the tool matcher of the entry.
func (c *LabelConfig) Tool() match.Written {
	return match.Written{Name: c.ToolName, Prefix: c.ToolPrefix, Glob: c.ToolGlob, Regex: c.ToolRegex, NameIn: c.ToolNameIn}
}

// SetDefaults sets the documented defaults.
func (c *Config) SetDefaults() {
	c.Scope, c.Window = ScopePrincipal, 30*time.Minute
}

// Used reports whether the section declares labels.
func (c *Config) Used() bool { return len(c.Labels) > 0 }

// Names returns the declared names.
func (c *Config) Names() *Names {
	list := make([]string, 0, len(c.Labels))
	for i := range c.Labels {
		list = append(list, c.Labels[i].Name)
	}
	return NewNames(list...)
}
