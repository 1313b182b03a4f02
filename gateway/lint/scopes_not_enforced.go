package lint

import "strconv"

// scopesNotEnforced warns of scopes of API keys, which have no effect (gateway specification,
// Authentication).
func scopesNotEnforced(p *pass) {
	first := -1
	var ids []string
	for i := range p.file.Auth.Keys {
		if k := &p.file.Auth.Keys[i]; len(k.Scopes) > 0 {
			if first < 0 {
				first = i
			}
			ids = append(ids, strconv.Quote(k.ID))
		}
	}
	if first < 0 {
		return
	}
	if len(ids) > 5 {
		ids = append(ids[:5], strconv.Itoa(len(ids)-5)+" more")
	}
	p.warn(p.root().Field("auth").Field("keys").Index(first).Field("scopes"), "limit tools with policy rules; scopes_in applies to OAuth tokens only",
		"scopes of API keys are recorded and not enforced: %s may call everything that the rules allow", join(ids))
}
