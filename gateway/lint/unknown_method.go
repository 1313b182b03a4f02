package lint

import (
	"strings"
	"unicode"

	"svc/gateway/mcp"
)

// unknownMethod warns of methods that differ slightly from a method of the protocol: matching is
// exact, so a misspelled method matches nothing. Other unknown methods may be extensions.
func unknownMethod(p *pass) {
	meant := make(map[string]string)
	for _, m := range mcp.Methods() {
		meant[gist(m.Name)] = m.Name
	}
	for i := range p.rules {
		r := &p.rules[i]
		if m, ok := meant[gist(r.When.Method)]; ok && r.When.Method != "" && mcp.MethodOf(r.When.Method).Name == "" {
			p.warn(p.ruleAt(r.index).Field("when").Field("method"), "write "+m,
				"rule %s: the protocol has no method %q", r.quoted(), r.When.Method)
		}
	}
}

// gist returns a method without case, separators and plurals.
func gist(method string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, method), "s", "")
}
