package lint

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"svc/gateway/diag"
)

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
