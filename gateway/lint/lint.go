// Package lint finds likely mistakes in a valid gateway configuration: rules that never apply,
// unreachable routes, missing protection. Each warning has a code, a file of that name here, and
// a page docs/lint/CODE.md with its meaning and an example.
//
// It uses only a [config.Document]: no file, no network, no environment. It determines exactly
// whether a rule applies (package nameset); if that would take too long, it reports an info.
package lint

import (
	"slices"
	"time"

	"svc/gateway/config"
	"svc/gateway/diag"
	"svc/gateway/nameset"
)

// check is one warning: its code and its function.
type check struct {
	code string
	// says is a summary of the warning.
	says string
	// needs are the sections that must be free of errors before the check runs. Checks of single
	// rules need none: invalid rules are skipped.
	needs []string
	run   func(*pass)
}

// checks returns all warnings, by code.
func checks() []check {
	return []check{
		{"auth-disabled-public", "authentication is off and the address is public", []string{"auth", "listen", "tls"}, authDisabledPublic},
		{"burst-below-rate", "a bucket holds less than one second of its rate", nil, burstBelowRate},
		{"catch-all-allow", "a rule for everything allows methods that default deny would deny", nil, catchAllAllow},
		{"catch-all-deny", "a deny for everything also stops clients' answers", nil, catchAllDeny},
		{"claims-allow-without-default-deny", "a rule allows some callers a call that all other callers may make as well", nil, claimsAllowWithoutDefaultDeny},
		{"claims-without-oauth", "a rule or a view requires claims, and no tokens are accepted", []string{"auth"}, claimsWithoutOAuth},
		{"default-action-omitted", "default_action is not set", nil, defaultActionOmitted},
		{"direction-mismatch", "a rule has a method that is never sent in its direction", nil, directionMismatch},
		{"filter-lists", "clients see tools that they may not call (info)", nil, filterLists},
		{"guardrail-sse-direction", "a guardrail does not check event streams", nil, guardrailSSEDirection},
		{"in-memory-limits", "each replica counts by itself (info, or warning)", []string{"rate_limit_store", "sessions"}, inMemoryLimits},
		{"key-expiry", "an API key has expired, or will soon", []string{"auth"}, keyExpiry},
		{"legacy-mrtr-method", "a rule on a server request has no corresponding rule for 2026-07-28", nil, legacyMRTRMethod},
		{"matcher-matches-nothing", "no tool name can match a matcher", nil, matcherMatchesNothing},
		{"needless-discovery-rule", "a rule allows what default deny lets pass anyway", nil, needlessDiscoveryRule},
		{"no-default-upstream", "no client can start a session", []string{"upstreams", "default_upstream"}, noDefaultUpstream},
		{"no-prefix", "federation: an upstream may claim the names of another", []string{"federation", "upstreams"}, noPrefix},
		{"observing-rule", "a rule is in mode observe and not enforced", nil, observingRule},
		{"overlapping-prefix", "a prefix begins with the prefix of another upstream", []string{"federation", "upstreams"}, overlappingPrefix},
		{"plain-http-upstream", "requests to another machine without TLS", []string{"upstreams"}, plainHTTPUpstream},
		{"plain-secret", "the file contains a secret", nil, plainSecret},
		{"redact-empty-match", "a redact regex matches the empty string", nil, redactEmptyMatch},
		{"redact-hits-names", "a redact rule rewrites the name of a tool in lists", nil, redactHitsNames},
		{"redact-request-only", "a redact rule does not change answers", nil, redactRequestOnly},
		{"regex-is-literal", "an expression is plain text", nil, regexIsLiteral},
		{"regex-matches-everything", "an expression matches everything", nil, regexMatchesEverything},
		{"route-across-prefix", "a route leads tools to an upstream without tools of these names", []string{"federation", "upstreams", "routes"}, routeAcrossPrefix},
		{"scopes-not-enforced", "API keys have scopes, which have no effect", []string{"auth"}, scopesNotEnforced},
		{"shadowed-rule", "a rule never decides", nil, shadowedRule},
		{"skip-verify", "a certificate is not verified", nil, skipVerify},
		{"stdio-same-user", "a program runs as the user of the gateway", []string{"upstreams"}, stdioSameUser},
		{"tool-search-off", "tool search has a mode and is off", []string{"tool_search"}, toolSearchOff},
		{"tool-without-route", "allowed tools have no route", []string{"upstreams", "routes", "policy"}, toolWithoutRoute},
		{"trusted-proxies-everyone", "every client can choose its own address", []string{"trusted_proxies"}, trustedProxiesEveryone},
		{"unknown-method", "a method is probably misspelled", nil, unknownMethod},
		{"unreachable-route", "no tool call reaches a route", nil, unreachableRoute},
		{"unused-guardrail", "no rule uses a guardrail", []string{"guardrails", "policy"}, unusedGuardrail},
		{"unused-upstream", "no request reaches an upstream", []string{"upstreams", "routes", "default_upstream"}, unusedUpstream},
		{"view-pattern", "federation: no tool of a view can match one of its patterns", []string{"federation", "upstreams", "views"}, viewPattern},
		{"wildcard-above-rate-limit", "a rule for everything precedes a rate limit", nil, wildcardAboveRateLimit},
		{"wildcard-redact-above-deny", "a redact rule for everything precedes a deny", nil, wildcardRedactAboveDeny},
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

// Summary returns the summary of a warning, "" for an unknown code.
func Summary(code string) string {
	if code == codeDirective {
		return "a comment for lint has no effect"
	}
	for _, c := range checks() {
		if c.code == code {
			return c.says
		}
	}
	return ""
}

// budget bounds the analysis of one file, in units of package nameset.
const budget = 25_000_000

// Run returns all findings about a document: those of start-up and the warnings of this package,
// without those that a comment in the file ignores; errors first, each group in the order of the
// file. now is the time for the expiry of keys.
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
	Sort(found)
	return found
}

// Sort orders findings as [Run] does: errors first, then warnings, then infos.
func Sort(found []diag.Finding) {
	diag.Sort(found)
	slices.SortStableFunc(found, func(a, b diag.Finding) int { return int(a.Severity) - int(b.Severity) })
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

// pass is the state that the checks of one run share.
type pass struct {
	doc    *config.Document
	file   *config.File
	now    time.Time
	report *diag.Report
	budget *nameset.Budget
	code   string // code of the running check

	rules  []rule
	routes []route
	// told are the shadowed rules that another warning has already reported.
	told map[int]bool
	// open are the rules and routes for which the budget did not suffice.
	open []string
}

func newPass(doc *config.Document, file *config.File, now time.Time) *pass {
	p := &pass{doc: doc, file: file, now: now, report: diag.New(), budget: nameset.NewBudget(budget), told: map[int]bool{}}
	p.rules = readRules(&file.Policy)
	p.routes = readRoutes(file.Routes)
	return p
}

// root returns the cursor at the top of the file.
func (p *pass) root() diag.At { return p.report.Root() }

// ruleAt returns the cursor of a rule; findings about a rule as a whole are at its id.
func (p *pass) ruleAt(i int) diag.At { return p.root().Field("policy").Field("rules").Index(i) }

// routeAt returns the cursor of a route.
func (p *pass) routeAt(i int) diag.At { return p.root().Field("routes").Index(i) }

// warn reports a warning of the running check.
func (p *pass) warn(at diag.At, hint, format string, args ...any) {
	if hint != "" {
		at = at.Hint("%s", hint)
	}
	at.Warnf(p.code, format, args...)
}

// info reports an info of the running check.
func (p *pass) info(at diag.At, hint, format string, args ...any) {
	if hint != "" {
		at = at.Hint("%s", hint)
	}
	at.Infof(p.code, format, args...)
}

// line returns the line of a cursor.
func (p *pass) line(at diag.At) int { return p.doc.Pos(at.Path()).Line }
