package lint

// defaultActionOmitted warns when the file does not show what happens to messages that no rule
// matches.
func defaultActionOmitted(p *pass) {
	if p.file.Policy.DefaultAction == nil && p.doc.Given("policy") {
		p.warn(p.root().Field("policy").Field("default_action"), "write default_action: deny, or allow if that is meant",
			"default_action is left out: tool calls that no rule matches are denied, all other methods pass")
	}
}
