package lint

import "time"

// soon is the time before the expiry of a key at which the warning begins.
const soon = 30 * 24 * time.Hour

// keyExpiry warns of keys that have expired, or will soon.
func keyExpiry(p *pass) {
	for i := range p.file.Auth.Keys {
		k := &p.file.Auth.Keys[i]
		at := p.root().Field("auth").Field("keys").Index(i).Field("expires_at")
		switch left := k.ExpiresAt.Sub(p.now); {
		case k.ExpiresAt.IsZero():
		case left <= 0:
			p.warn(at, "remove the key, or replace it: 'svc keygen' makes one", "the key %q expired on %s and answers 401", k.ID, k.ExpiresAt.UTC().Format(time.DateOnly))
		case left < soon:
			p.warn(at, "make a new key now and keep both for a while: 'svc keygen' makes one", "the key %q expires on %s, in %d days", k.ID, k.ExpiresAt.UTC().Format(time.DateOnly), int(left/(24*time.Hour)))
		}
	}
}
