package lint

import "time"

// soon is how long before its end a key is worth a warning.
const soon = 30 * 24 * time.Hour

// keyExpiry warns of keys that are no longer good, or will not be soon.
func keyExpiry(p *pass) {
	for i := range p.file.Auth.Keys {
		k := &p.file.Auth.Keys[i]
		at := p.root().Field("auth").Field("keys").Index(i).Field("expires_at")
		switch left := k.ExpiresAt.Sub(p.now); {
		case k.ExpiresAt.IsZero():
		case left <= 0:
			p.warn(at, "remove the key, or replace it: 'svc keygen' makes one", "the key %q expired on %s and answers 401", k.ID, k.ExpiresAt.UTC().Format(time.DateOnly))
		case left < soon:
			p.warn(at, "make its successor now and keep both for a while: 'svc keygen' makes one", "the key %q expires on %s, in %d days", k.ID, k.ExpiresAt.UTC().Format(time.DateOnly), int(left/(24*time.Hour)))
		}
	}
}
