package catalog

import (
	"fmt"
	"slices"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
)

// Bounds on visible names.
const (
	// MaxVisible is the longest name that clients see, in bytes, because SDKs and model providers
	// reject longer ones.
	MaxVisible = 128
	// LongVisible is the length above which some clients truncate names.
	LongVisible = 45
)

// Naming determines the names of one upstream's items for clients.
type Naming struct {
	Upstream string
	// Prefix is put before the names of tools and prompts; it may be empty.
	Prefix string
	// Allow and Deny are globs for the upstream's own tool names. Without Allow all are allowed;
	// Deny takes precedence.
	Allow, Deny []string
	// Rename maps an upstream's own tool name to the name that follows the prefix.
	Rename map[string]string
}

// Reason is the reason why an item is omitted from the merged lists.
type Reason string

// The reasons. ReasonHidden is configured; the others are reported.
const (
	ReasonHidden    Reason = "hidden"       // tools.allow or tools.deny
	ReasonClaimed   Reason = "tool_claimed" // the name, uri or template belongs to another upstream
	ReasonName      Reason = "name"         // not a name that every client accepts
	ReasonTwice     Reason = "listed_twice" // the upstream lists it a second time
	ReasonMalformed Reason = "malformed"    // not an object, or without a name
	ReasonTooLarge  Reason = "too_large"    // the definition is over MaxItem
	ReasonTooMany   Reason = "too_many"     // the upstream lists more than MaxItems
	ReasonSkill     Reason = "skill"        // an entry of a skill that hosts must not load; see LeftOut.Problem
	ReasonAddress   Reason = "address"      // a skill:// or ui:// address that no client may use
)

// Names translates between the names of upstreams and those that clients see. It is immutable and
// safe for concurrent use.
type Names struct {
	upstreams map[string]*naming
	order     map[string]int // position in the file
	prefixed  []*naming      // upstreams with a prefix, the longest prefix first
	addresses *Addresses     // nil unless the lists of several upstreams are merged
	only      string         // the upstream whose lists alone are merged; empty for several
}

type naming struct {
	upstream    string
	prefix      string
	allow, deny []*match.Pattern
	rename      map[string]string // own to visible
	renamed     map[string]string // visible to own
}

// NewNames compiles the naming of all upstreams, in the order of the file. Its error names the
// upstream and the setting.
func NewNames(list []Naming) (*Names, error) {
	n := &Names{upstreams: make(map[string]*naming, len(list)), order: make(map[string]int, len(list))}
	for i := range list {
		c, err := compile(&list[i])
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", list[i].Upstream, err)
		}
		if n.upstreams[c.upstream] != nil {
			return nil, fmt.Errorf("upstream %q is named twice", c.upstream)
		}
		n.upstreams[c.upstream] = c
		n.order[c.upstream] = i
		if c.prefix == "" {
			continue
		}
		for _, other := range n.prefixed {
			if other.prefix == c.prefix {
				return nil, fmt.Errorf("upstreams %q and %q have the same prefix %q", other.upstream, c.upstream, c.prefix)
			}
		}
		n.prefixed = append(n.prefixed, c)
	}
	slices.SortStableFunc(n.prefixed, func(a, b *naming) int { return len(b.prefix) - len(a.prefix) })
	return n, nil
}

// NewMergedNames is NewNames for upstreams whose lists are merged: the addresses of several of them have
// an owner by their form.
func NewMergedNames(list []Naming) (*Names, error) {
	n, err := NewNames(list)
	if err != nil {
		return nil, err
	}
	upstreams := make([]string, len(list))
	for i := range list {
		upstreams[i] = list[i].Upstream
	}
	if n.addresses = NewAddresses(upstreams); len(upstreams) == 1 {
		n.only = upstreams[0]
	}
	return n, nil
}

// Addresses returns the addresses of the upstreams; nil if they stay as they are.
func (n *Names) Addresses() *Addresses {
	if n == nil {
		return nil
	}
	return n.addresses
}

// NamingError is the error of an invalid Naming.
type NamingError struct {
	// Field is the invalid key: prefix, or allow, deny or rename of tools.
	Field string
	// Tools is set for the keys of tools.
	Tools bool
	Err   error
}

func (e *NamingError) Error() string {
	if e.Tools {
		return "tools." + e.Field + ": " + e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *NamingError) Unwrap() error { return e.Err }

// Check returns the [NamingError] of a Naming, nil when it is valid by itself.
func (l *Naming) Check() *NamingError {
	_, err := compile(l)
	return err
}

func compile(l *Naming) (*naming, *NamingError) {
	c := &naming{upstream: l.Upstream, prefix: l.Prefix, rename: l.Rename, renamed: make(map[string]string, len(l.Rename))}
	if l.Prefix != "" && !validPrefix(l.Prefix) {
		return nil, &NamingError{Field: "prefix", Err: fmt.Errorf("%q is not 1 to 32 of the characters A-Z a-z 0-9 _ . -", l.Prefix)}
	}
	var err error
	if c.allow, err = compileGlobs(l.Allow); err != nil {
		return nil, &NamingError{Field: "allow", Tools: true, Err: err}
	}
	if c.deny, err = compileGlobs(l.Deny); err != nil {
		return nil, &NamingError{Field: "deny", Tools: true, Err: err}
	}
	for own, visible := range l.Rename {
		if !validVisible(l.Prefix + visible) {
			return nil, &NamingError{Field: "rename", Tools: true, Err: fmt.Errorf("%q is, with the prefix, not 1 to %d of the characters A-Z a-z 0-9 _ . -", visible, MaxVisible)}
		}
		if other, ok := c.renamed[visible]; ok {
			return nil, &NamingError{Field: "rename", Tools: true, Err: fmt.Errorf("%q and %q both become %q", min(own, other), max(own, other), visible)}
		}
		c.renamed[visible] = own
	}
	return c, nil
}

func compileGlobs(patterns []string) ([]*match.Pattern, error) {
	var out []*match.Pattern
	for _, p := range patterns {
		g, err := match.CompileGlob(p)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", p, err)
		}
		out = append(out, g)
	}
	return out, nil
}

// validPrefix reports whether a prefix has 1 to 32 of the characters that every client accepts in
// names.
func validPrefix(s string) bool { return len(s) <= 32 && validVisible(s) }

// validVisible reports whether clients accept a name.
func validVisible(s string) bool {
	if s == "" || len(s) > MaxVisible {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// Remedy returns the setting that gives a tool with a name that not every client accepts another
// name; empty for items that no setting helps.
func (l *LeftOut) Remedy() string {
	if l.Reason != ReasonName || l.Kind != mcp.Tool {
		return ""
	}
	valid := strings.Trim(strings.Map(func(r rune) rune {
		if validVisible(string(r)) {
			return r
		}
		return '_'
	}, l.Own), "_")
	if valid == "" {
		valid = "another_name"
	}
	return fmt.Sprintf("tools.rename of the upstream: {%q: %s}", l.Own, valid[:min(len(valid), LongVisible)])
}

// Visible returns the name under which clients see an upstream's tool or prompt, or why they do
// not see it. Of the keys of other kinds addresses are changed. Nil Names change nothing.
func (n *Names) Visible(upstream string, kind mcp.ListKind, own string) (string, Reason) {
	if n == nil {
		return own, ""
	}
	c := n.upstreams[upstream]
	if c == nil {
		return "", ReasonHidden
	}
	if !kind.Named() {
		visible := n.addresses.Visible(upstream, own)
		if _, _, _, err := n.addresses.of(kind, visible); err != nil {
			return visible, ReasonAddress
		}
		return visible, ""
	}
	name, why := c.renamedTo(kind, own)
	if why != "" {
		return "", why
	}
	name = c.prefix + name
	if why := n.refuses(upstream, name); why != "" {
		return "", why
	}
	return name, ""
}

// renamedTo returns the configured name of an upstream's own tool or prompt, without the prefix,
// or the reason why clients do not see it.
func (c *naming) renamedTo(kind mcp.ListKind, own string) (string, Reason) {
	if kind != mcp.Tool {
		return own, ""
	}
	if !c.allows(own) {
		return "", ReasonHidden
	}
	if to, ok := c.rename[own]; ok {
		return to, ""
	}
	if _, taken := c.renamed[own]; taken {
		return "", ReasonClaimed // another tool of this upstream has been renamed to the name
	}
	return own, ""
}

// refuses returns the reason why a name with its prefix cannot be a visible name of an upstream;
// empty if it can.
func (n *Names) refuses(upstream, name string) Reason {
	if !validVisible(name) {
		return ReasonName
	}
	if by, ok := n.ByPrefix(name); ok && by != upstream {
		return ReasonClaimed
	}
	return ""
}

// Own returns the upstream's own name for a visible name: ok is false when the upstream has
// nothing with that visible name.
func (n *Names) Own(upstream string, kind mcp.ListKind, visible string) (own string, ok bool) {
	c := n.upstreams[upstream]
	if c == nil {
		return "", false
	}
	if !kind.Named() {
		if by, own, ok, err := n.addresses.of(kind, visible); ok {
			return own, err == nil && by == upstream
		}
		return visible, true
	}
	name, ok := strings.CutPrefix(visible, c.prefix)
	if !ok || name == "" {
		return "", false
	}
	own = name
	if from, renamed := c.renamed[name]; kind == mcp.Tool && renamed {
		own = from
	}
	back, why := c.renamedTo(kind, own)
	return own, why == "" && back == name && n.refuses(upstream, visible) == ""
}

// Prefix returns the prefix of an upstream, empty for none.
func (n *Names) Prefix(upstream string) string {
	if c := n.upstreams[upstream]; c != nil {
		return c.prefix
	}
	return ""
}

// ByPrefix returns the upstream that has the longest prefix of a visible name.
func (n *Names) ByPrefix(visible string) (upstream string, ok bool) {
	for _, c := range n.prefixed {
		if strings.HasPrefix(visible, c.prefix) {
			return c.upstream, true
		}
	}
	return "", false
}

func (c *naming) allows(own string) bool {
	match := func(g *match.Pattern) bool { return g.Match(own) }
	if slices.ContainsFunc(c.deny, match) {
		return false
	}
	return len(c.allow) == 0 || slices.ContainsFunc(c.allow, match)
}
