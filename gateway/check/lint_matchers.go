package check

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"svc/gateway/base/diag"
)

// matcherMatchesNothing warns of tool matchers that match no valid tool name.
func matcherMatchesNothing(p *pass) {
	tell := func(at diag.At, what string) {
		p.warn(at, "a tool name has at least one character and no control characters", "no tool name can match this, so the %s applies to nothing", what)
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.tools != nil && p.budget.Empty(r.tools) {
			tell(p.ruleAt(r.index).Field("when").Field(r.matcher), "rule")
		}
	}
	for i := range p.routes {
		if r := &p.routes[i]; p.budget.Empty(r.tools) {
			tell(p.routeAt(r.index).Field("match").Field(r.matcher), "route")
		}
	}
}

// message is a sample of the messages that a redaction is applied to.
const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}`

// regexMatchesEverything warns of expressions that match everything.
func regexMatchesEverything(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.matcher == "tool_regex" && p.budget.Full(r.tools) {
			p.warn(p.ruleAt(r.index).Field("when").Field("tool_regex"), `write tool_glob: "*" if every tool call is meant; tool_name: "*" is every message of any method`,
				"rule %s: the expression matches every tool name", r.quoted())
		}
		for j := range r.Redact {
			re, err := regexp.Compile(r.Redact[j].Regex)
			if err == nil && re.FindString(message) == message {
				p.warn(p.ruleAt(r.index).Field("redact").Index(j).Field("regex"), "match only the text to be hidden: the expression is applied to the whole JSON text of a message",
					"rule %s: the regex matches whole messages, and a message without its envelope is refused (redact_invalid)", r.quoted())
			}
		}
	}
	for i := range p.routes {
		if r := &p.routes[i]; r.matcher == "tool_regex" && p.budget.Full(r.tools) {
			p.warn(p.routeAt(r.index).Field("match").Field("tool_regex"), `write tool_name: "*"`, "the expression matches every tool name")
		}
	}
}

// regexIsLiteral suggests a plain matcher for expressions with the same meaning, which is easier
// to read and faster.
func regexIsLiteral(p *pass) {
	look := func(at diag.At, expr string) {
		if better := plainer(expr); better != "" {
			p.warn(at, "write "+better, "the expression is a plain text")
		}
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.When.ToolRegex != nil {
			look(p.ruleAt(r.index).Field("when").Field("tool_regex"), *r.When.ToolRegex)
		}
	}
	for i := range p.routes {
		if r := &p.routes[i]; r.Match.ToolRegex != "" {
			look(p.routeAt(r.index).Field("match").Field("tool_regex"), r.Match.ToolRegex)
		}
	}
}

// plainer returns the matcher with the same meaning as an expression, "" if it needs an
// expression.
func plainer(expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	parts := []*syntax.Regexp{bare(re)}
	if parts[0].Op == syntax.OpConcat {
		parts = parts[0].Sub
	}
	// Anchors are implied.
	for len(parts) > 1 && (parts[0].Op == syntax.OpBeginText || parts[0].Op == syntax.OpBeginLine) {
		parts = parts[1:]
	}
	for len(parts) > 1 && (parts[len(parts)-1].Op == syntax.OpEndText || parts[len(parts)-1].Op == syntax.OpEndLine) {
		parts = parts[:len(parts)-1]
	}
	text, ok := literal(bare(parts[0]))
	switch {
	case len(parts) == 1 && ok:
		return fmt.Sprintf("tool_name: %q", text)
	case len(parts) == 2 && ok && anything(parts[1]):
		return fmt.Sprintf("tool_prefix: %q", text)
	case len(parts) == 1:
		return listed(bare(re), expr)
	}
	return ""
}

// bare removes parentheses.
func bare(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	return re
}

func literal(re *syntax.Regexp) (string, bool) {
	return string(re.Rune), re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0
}

// anything reports whether an expression matches any run of characters.
func anything(re *syntax.Regexp) bool {
	re = bare(re)
	return re.Op == syntax.OpStar && (re.Sub[0].Op == syntax.OpAnyChar || re.Sub[0].Op == syntax.OpAnyCharNotNL)
}

// listed returns tool_name_in for an expression that is an alternation of plain texts. The parser
// factors out common prefixes, so each alternative is parsed by itself.
func listed(re *syntax.Regexp, expr string) string {
	expr = strings.TrimSuffix(strings.TrimPrefix(expr, "^"), "$")
	if strings.HasPrefix(expr, "(") && strings.HasSuffix(expr, ")") && strings.Count(expr, "(") == 1 {
		expr = strings.TrimPrefix(expr[1:len(expr)-1], "?:")
	}
	if re.Op == syntax.OpEmptyMatch || !strings.Contains(expr, "|") {
		return ""
	}
	var names []string
	for part := range strings.SplitSeq(expr, "|") {
		sub, err := syntax.Parse(part, syntax.Perl)
		if err != nil {
			return ""
		}
		text, ok := literal(sub)
		if !ok {
			return ""
		}
		names = append(names, text)
	}
	if len(names) > 8 {
		return "tool_name_in with the names"
	}
	return "tool_name_in: [" + strings.Join(names, ", ") + "]"
}
