package lint

import "regexp"

// redactEmptyMatch warns of expressions that match the empty text, between any two characters.
func redactEmptyMatch(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		for j := range r.Redact {
			re, err := regexp.Compile(r.Redact[j].Regex)
			if err == nil && r.Redact[j].Regex != "" && re.MatchString("") {
				p.warn(p.ruleAt(r.index).Field("redact").Index(j).Field("regex"), "require at least one character, as + does instead of *",
					"rule %s: the regex matches the empty text, so the replacement is put between characters that it does not match", r.quoted())
			}
		}
	}
}
