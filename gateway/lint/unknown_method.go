package lint

import (
	"strings"
	"unicode"

	"svc/gateway/mcp"
)

// unknownMethod warns of methods that are nearly one of the protocol's: matching
// is exact, so a slip matches nothing. Other unknown methods may be extensions.
func unknownMethod(p *pass) {
	meant := make(map[string]string)
	for _, m := range mcp.Methods() {
		meant[gist(m.Name)] = m.Name
	}
	for i := range p.rules {
		r := &p.rules[i]
		if m, ok := meant[gist(r.When.Method)]; ok && r.When.Method != "" && mcp.MethodOf(r.When.Method).Name == "" {
			p.warn(p.ruleAt(r.index).Field("when").Field("method"), "write "+m,
				"rule %s: no method of the protocol is written %q", r.quoted(), r.When.Method)
		}
	}
}

// gist is what stays of a method when case, separators and plurals are taken off.
func gist(method string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, method), "s", "")
}
