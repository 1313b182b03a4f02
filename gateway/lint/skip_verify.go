package lint

// skipVerify warns of certificates that nobody looks at.
func skipVerify(p *pass) {
	for i := range p.file.Guardrails {
		if g := &p.file.Guardrails[i]; g.TLS.SkipVerify {
			p.warn(p.root().Field("guardrails").Index(i).Field("tls").Field("skip_verify"), "name the authority with tls.ca_file",
				"the guardrail %q accepts any certificate: whoever sits between reads every message it is asked about, and answers in its place", g.Name)
		}
	}
}
