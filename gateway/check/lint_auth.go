package check

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/base/hostname"
)

// authDisabledPublic warns of a gateway that is open to the network without authentication.
func authDisabledPublic(p *pass) {
	f := p.file
	if f.Auth.Enabled || f.TLS != nil && f.TLS.ClientCA != "" {
		return
	}
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil || hostname.IsLoopback(host) {
		return
	}
	p.warn(p.root().Field("listen"), "enable auth ('svc keygen' makes keys), ask for client certificates with tls.client_ca, or listen on 127.0.0.1",
		"authentication is off: anyone who can reach this address may call")
}

// trustedProxiesEveryone warns when every client can choose its own address.
func trustedProxiesEveryone(p *pass) {
	for i, s := range p.file.TrustedProxies {
		if prefix, err := netip.ParsePrefix(s); err == nil && prefix.Bits() == 0 {
			p.warn(p.root().Field("trusted_proxies").Index(i), "list only the addresses of the proxies",
				"every client can choose its own address: rate limits per address have no effect, and addresses in audit lines are unreliable")
		}
	}
}

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

// Registered claims (RFC 7519, RFC 9068, OpenID Connect Core) and claims of Keycloak that are no
// list of texts.
var (
	objectClaims = []string{"_claim_names", "_claim_sources", "act", "address", "authorization_details", "cnf", "realm_access", "resource_access"}
	valueClaims  = []string{"auth_time", "email_verified", "exp", "hasgroups", "iat", "nbf", "updated_at"}
	textClaims   = []string{"acr", "azp", "client_id", "email", "family_name", "given_name", "iss", "jti", "name", "nonce", "oid", "preferred_username", "scope", "sid", "sub", "tid", "upn"}
)

// groupsClaim warns of a groups_claim that cannot be a list of groups: conditions on groups then
// match nobody.
func groupsClaim(p *pass) {
	name := p.file.Identity.GroupsClaim
	at := p.root().Field("identity").Field("groups_claim")
	pointer := "/" + strings.ReplaceAll(name, ".", "/")
	switch {
	case slices.Contains(objectClaims, name):
		member := "/roles"
		if name == "resource_access" {
			member = "/CLIENT/roles"
		}
		p.warn(at, "name the list inside it with a JSON Pointer, as in "+pointer+member, "the claim %q is an object and no list of groups", name)
	case slices.Contains(valueClaims, name):
		p.warn(at, "name the claim with the caller's groups, as in groups or roles", "the claim %q is no list of groups", name)
	case slices.Contains(textClaims, name):
		p.warn(at, "name the claim with the caller's groups, as in groups or roles; conditions on scopes and subjects are scopes_in and subject_in",
			"the claim %q is one text, which would be the name of the only group", name)
	case strings.Contains(name, ".") && !strings.ContainsAny(name, "/:"):
		p.warn(at, "write "+pointer+" for a nested claim", "%q is the name of one claim; dots do not separate nested ones", name)
	}
}

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

// soon is the time before the expiry of a key at which the warning begins.
const soon = 30 * 24 * time.Hour

// keyExpiry warns of keys and secrets that have expired, or will soon without another one.
func keyExpiry(p *pass) {
	for i := range p.file.Auth.Keys {
		k := &p.file.Auth.Keys[i]
		at := p.root().Field("auth").Field("keys").Index(i)
		keyExpires(p, at, k.ID, "", k.ExpiresAt)
		replaced := slices.ContainsFunc(k.Hashes, func(s auth.HashConfig) bool { return s.ExpiresAt.IsZero() || s.ExpiresAt.Sub(p.now) >= soon })
		for j, s := range k.Hashes {
			if s.ExpiresAt.After(p.now) && replaced {
				continue // another secret of the client remains
			}
			keyExpires(p, at.Field("hashes").Index(j), k.ID, "a secret of ", s.ExpiresAt)
		}
	}
}

// keyExpires warns of a key, or of one of its secrets, below at.
func keyExpires(p *pass, at diag.At, id, of string, end time.Time) {
	at = at.Field("expires_at")
	switch left := end.Sub(p.now); {
	case end.IsZero():
	case left <= 0:
		p.warn(at, "remove it, or replace it: 'svc keygen --rotate ID' makes another secret of the same client", "%sthe key %q expired on %s and answers 401", of, id, end.UTC().Format(time.DateOnly))
	case left < soon:
		p.warn(at, "make another secret of the same client now and keep both for a while: 'svc keygen --rotate ID'", "%sthe key %q expires on %s, in %d days", of, id, end.UTC().Format(time.DateOnly), int(left/(24*time.Hour)))
	}
}

// keyIDDot warns of a key whose id is that of another key with a dot and a number, as in the
// text of a secret of hashes: the id that the file has as a whole wins.
func keyIDDot(p *pass) {
	index := keyIndex(p)
	for i := range p.file.Auth.Keys {
		id := p.file.Auth.Keys[i].ID
		base, n, ok := auth.CutN(id)
		first, found := index[base]
		if !ok || !found {
			continue
		}
		at := p.root().Field("auth").Field("keys").Index(i).Field("id")
		if slices.ContainsFunc(p.file.Auth.Keys[first].Hashes, func(s auth.HashConfig) bool { return s.N == n }) {
			p.warn(at, "choose another id for this key, or replace that secret with 'svc keygen --rotate "+base+"'",
				"key texts of %q are keys of this entry, so that n: %d in hashes of keys[%d] is never used", id, n, first)
			continue
		}
		p.warn(at, "choose an id that does not end with a dot and a number", "%q reads like the secret n: %d of keys[%d]", id, n, first)
	}
}

// keyIndex returns the indexes of the keys by their ids.
func keyIndex(p *pass) map[string]int {
	index := make(map[string]int, len(p.file.Auth.Keys))
	for i := range p.file.Auth.Keys {
		index[p.file.Auth.Keys[i].ID] = i
	}
	return index
}

// suffixedID is an id with a suffix as people append it to the id of a key that replaces another:
// a number, a date, a version, or a word. A number may follow without a separator. The parts are
// the id without the suffix, the separator, and the suffix.
var suffixedID = regexp.MustCompile(`(?i)^(?:(.+?)([-_.])(v[0-9][0-9._-]*|new|next|old|prev|previous|backup|bak|rotated|replacement)|` +
	`(.*?[^0-9._-])([-_.]*)([0-9][0-9._-]*))$`)

// shortNumber is a suffix that numbers clients as often as secrets: neither a date nor a year.
var shortNumber = regexp.MustCompile(`^[0-9]{1,3}$`)

// fleet is the number of ids from which short numbers as the only difference are taken to number
// the clients.
const fleet = 3

// keyNewPrincipal warns of two keys whose ids differ by a suffix only: the new key of a client is
// another principal.
func keyNewPrincipal(p *pass) {
	index := keyIndex(p)
	suffixed, numbered := map[string]int{}, map[string]int{} // by base: the first key, and the count of short numbers
	for i := range p.file.Auth.Keys {
		base, sep, suffix := cutSuffix(p.file.Auth.Keys[i].ID)
		if _, has := suffixed[base]; !has && sep != "" {
			suffixed[base] = i
		}
		if shortNumber.MatchString(suffix) {
			numbered[base]++
		}
	}
	for i := range p.file.Auth.Keys {
		id := p.file.Auth.Keys[i].ID
		base, sep, suffix := cutSuffix(id)
		if base == "" {
			continue
		}
		first, found := index[base]
		if !found && sep != "" && (numbered[base] < fleet || !shortNumber.MatchString(suffix)) {
			first, found = suffixed[base], suffixed[base] != i
		}
		if !found {
			continue
		}
		if of, _, ok := auth.CutN(id); ok && p.file.Auth.Keys[first].ID == of {
			continue // key-id-dot reports it
		}
		p.warn(p.root().Field("auth").Field("keys").Index(i).Field("id"),
			"if both are keys of one client, make the new one with 'svc keygen --rotate ID'; if not, # svc-lint: ignore key-new-principal REASON",
			"%q is another caller than %q: policies, budgets and limits of the one do not apply to the other", id, p.file.Auth.Keys[first].ID)
	}
}

// cutSuffix returns the parts of an id as in suffixedID; empty for an id without a suffix.
func cutSuffix(id string) (base, sep, suffix string) {
	m := suffixedID.FindStringSubmatch(id)
	switch {
	case m == nil:
		return "", "", ""
	case m[1] != "":
		return m[1], m[2], m[3]
	}
	return m[4], m[5], m[6]
}

// secretHeader matches the names of headers that carry credentials.
var secretHeader = regexp.MustCompile(`(?i)authori[sz]ation|cookie|credential|passw|secret|token|(^|[-_])(api)?-?key$`)

// secretVariable matches the names of environment variables that contain secrets.
var secretVariable = regexp.MustCompile(`(?i)auth|credential|passw|secret|token|(^|_)(api_?)?key$|_pat$`)

// plainSecret warns of secrets in the file itself, because backups and version control keep them.
func plainSecret(p *pass) {
	tell := func(at diag.At, what string) {
		if text, ok := p.doc.Written(at.Path()); ok && text != "" && !strings.Contains(text, "${") {
			p.warn(at, "write ${NAME} and set NAME in the environment of the gateway", "the file contains the %s", what)
		}
	}
	headers := func(at diag.At, h map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if secretHeader.MatchString(name) {
				tell(at.Field("headers").Field(name), "value of "+name)
			}
		}
	}
	f, root := p.file, p.root()
	for i := range f.Upstreams {
		headers(root.Field("upstreams").Index(i), f.Upstreams[i].Headers)
		for _, name := range slices.Sorted(maps.Keys(f.Upstreams[i].Env)) {
			if secretVariable.MatchString(name) {
				tell(root.Field("upstreams").Index(i).Field("env").Field(name), "value of "+name)
			}
		}
	}
	for i := range f.Guardrails {
		headers(root.Field("guardrails").Index(i), f.Guardrails[i].Headers)
	}
	for i := range f.Audit.Sinks {
		headers(root.Field("audit").Field("sinks").Index(i), f.Audit.Sinks[i].Headers)
	}
	headers(root.Field("telemetry").Field("customer"), f.Telemetry.Customer.Headers)
	headers(root.Field("telemetry").Field("operator"), f.Telemetry.Operator.Headers)
	tell(root.Field("control_plane").Field("ingest_key"), "ingest key")
	if u, err := url.Parse(f.RateLimitStore.URL); err == nil && u.User != nil {
		if _, ok := u.User.Password(); ok {
			tell(root.Field("rate_limit_store").Field("url"), "password of the store")
		}
	}
}
