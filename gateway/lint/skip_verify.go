package lint

// skipVerify warns of certificates that are not verified.
func skipVerify(p *pass) {
	for i := range p.file.Guardrails {
		if g := &p.file.Guardrails[i]; g.TLS.SkipVerify {
			p.warn(p.root().Field("guardrails").Index(i).Field("tls").Field("skip_verify"), "name the authority with tls.ca_file",
				"the certificate of the guardrail %q is not verified: an attacker on the network can read every message sent to it, and decide in its place", g.Name)
		}
	}
}
