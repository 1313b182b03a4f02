package lint

// claimsWithoutOAuth warns of conditions on claims while no tokens are accepted.
func claimsWithoutOAuth(p *pass) {
	if p.file.Auth.Enabled && p.file.Auth.OAuth.Enabled {
		return
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.claims != nil {
			p.warn(p.ruleAt(r.index).Field("when").Field("claims"), "enable auth.oauth, or remove the claims",
				"rule %s matches nobody: claims come from OAuth tokens, and auth.oauth is off", r.quoted())
		}
	}
	for i := range p.file.Views {
		if v := &p.file.Views[i]; v.Claims != nil {
			p.warn(p.root().Field("views").Index(i).Field("claims"), "enable auth.oauth, or remove the claims",
				"nobody can use the view %q: claims come from OAuth tokens, and auth.oauth is off", v.Name)
		}
	}
}
