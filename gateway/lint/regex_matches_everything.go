package lint

import "regexp"

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
