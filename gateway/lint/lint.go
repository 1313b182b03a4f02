// Package lint looks for what an operator will trip over in a gateway
// configuration that start-up accepts: rules that never apply, routes that
// nothing reaches, doors left open. Each warning has a code, a file of that name
// here, and a page docs/lint/CODE.md with what it means and how it looks.
//
// It reads a [config.Document] and nothing else: no file, no network, no
// environment. Whether a rule applies it works out exactly (package nameset);
// where that would take too long it says so as an info.
package lint

import (
	"slices"
	"time"

	"svc/gateway/config"
	"svc/gateway/diag"
	"svc/gateway/nameset"
)

// check is one warning: its code and who looks for it.
type check struct {
	code string
	// needs are the sections that must be free of errors for the check to mean
	// anything. Checks of single rules need none: rules that are wrong are left
	// out one by one.
	needs []string
	run   func(*pass)
}

// checks returns all warnings, by code.
func checks() []check {
	return []check{
		{"auth-disabled-public", []string{"auth", "listen", "tls"}, authDisabledPublic},
		{"burst-below-rate", nil, burstBelowRate},
		{"catch-all-allow", nil, catchAllAllow},
		{"claims-allow-without-default-deny", nil, claimsAllowWithoutDefaultDeny},
		{"claims-without-oauth", []string{"auth"}, claimsWithoutOAuth},
		{"default-action-omitted", nil, defaultActionOmitted},
		{"direction-mismatch", nil, directionMismatch},
		{"filter-lists", nil, filterLists},
		{"guardrail-sse-direction", nil, guardrailSSEDirection},
		{"in-memory-limits", []string{"rate_limit_store", "sessions"}, inMemoryLimits},
		{"key-expiry", []string{"auth"}, keyExpiry},
		{"legacy-mrtr-method", nil, legacyMRTRMethod},
		{"matcher-matches-nothing", nil, matcherMatchesNothing},
		{"needless-discovery-rule", nil, needlessDiscoveryRule},
		{"no-default-upstream", []string{"upstreams", "default_upstream"}, noDefaultUpstream},
		{"plain-http-upstream", []string{"upstreams"}, plainHTTPUpstream},
		{"plain-secret", nil, plainSecret},
		{"redact-empty-match", nil, redactEmptyMatch},
		{"redact-request-only", nil, redactRequestOnly},
		{"regex-is-literal", nil, regexIsLiteral},
		{"regex-matches-everything", nil, regexMatchesEverything},
		{"scopes-not-enforced", []string{"auth"}, scopesNotEnforced},
		{"shadowed-rule", nil, shadowedRule},
		{"skip-verify", nil, skipVerify},
		{"tool-without-route", []string{"upstreams", "routes", "policy"}, toolWithoutRoute},
		{"trusted-proxies-everyone", []string{"trusted_proxies"}, trustedProxiesEveryone},
		{"unknown-method", nil, unknownMethod},
		{"unreachable-route", nil, unreachableRoute},
		{"unused-guardrail", []string{"guardrails", "policy"}, unusedGuardrail},
		{"unused-upstream", []string{"upstreams", "routes", "default_upstream"}, unusedUpstream},
		{"wildcard-above-rate-limit", nil, wildcardAboveRateLimit},
		{"wildcard-redact-above-deny", nil, wildcardRedactAboveDeny},
	}
}

// Codes returns the codes of all warnings, sorted.
func Codes() []string {
	list := []string{codeDirective}
	for _, c := range checks() {
		list = append(list, c.code)
	}
	slices.Sort(list)
	return list
}

// budget bounds the reasoning about one file, in units of package nameset.
const budget = 25_000_000

// Run returns everything there is to say about a document: what start-up finds
// and the warnings of this package, less those that a comment in the file
// silences; errors first, each group in the order of the file. now is the time
// for keys that expire.
func Run(doc *config.Document, now time.Time) []diag.Finding {
	found := slices.Clone(doc.Findings())
	if file := doc.Draft(); file != nil {
		p := newPass(doc, file, now)
		for _, c := range checks() {
			if !blocked(found, c.needs) {
				p.code = c.code
				c.run(p)
			}
		}
		p.undecided()
		found = append(found, doc.Complete(p.report.Findings())...)
		found = silence(doc, found)
	}
	diag.Sort(found)
	slices.SortStableFunc(found, func(a, b diag.Finding) int { return int(a.Severity) - int(b.Severity) })
	return found
}

// blocked reports whether one of the sections has an error, or the file as a
// whole.
func blocked(found []diag.Finding, sections []string) bool {
	return slices.ContainsFunc(found, func(f diag.Finding) bool {
		return f.Severity == diag.Error && slices.ContainsFunc(sections, func(s string) bool { return within(f.Path, s) })
	})
}

// within reports whether a path is that of a section or lies in it.
func within(path, section string) bool {
	return path == section || len(path) > len(section) && path[:len(section)] == section &&
		(path[len(section)] == '.' || path[len(section)] == '[')
}

// pass is what the checks of one run share.
type pass struct {
	doc    *config.Document
	file   *config.File
	now    time.Time
	report *diag.Report
	budget *nameset.Budget
	code   string // of the check that runs

	rules  []rule
	routes []route
	// told are the rules whose being shadowed another warning has told already.
	told map[int]bool
	// open are the rules and routes that the budget did not suffice for.
	open []string
}

func newPass(doc *config.Document, file *config.File, now time.Time) *pass {
	p := &pass{doc: doc, file: file, now: now, report: diag.New(), budget: nameset.NewBudget(budget), told: map[int]bool{}}
	p.rules = readRules(&file.Policy)
	p.routes = readRoutes(file.Routes)
	return p
}

// root is the cursor at the top of the file.
func (p *pass) root() diag.At { return p.report.Root() }

// ruleAt is the cursor of a rule; findings about a rule as a whole point at its id.
func (p *pass) ruleAt(i int) diag.At { return p.root().Field("policy").Field("rules").Index(i) }

// routeAt is the cursor of a route.
func (p *pass) routeAt(i int) diag.At { return p.root().Field("routes").Index(i) }

// warn reports a warning of the check that runs.
func (p *pass) warn(at diag.At, hint, format string, args ...any) {
	if hint != "" {
		at = at.Hint("%s", hint)
	}
	at.Warnf(p.code, format, args...)
}

// info reports an info of the check that runs.
func (p *pass) info(at diag.At, hint, format string, args ...any) {
	if hint != "" {
		at = at.Hint("%s", hint)
	}
	at.Infof(p.code, format, args...)
}

// line returns the line that a cursor points at.
func (p *pass) line(at diag.At) int { return p.doc.Pos(at.Path()).Line }
