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
	// says is when it is said, in a few words.
	says string
	// needs are the sections that must be free of errors for the check to mean
	// anything. Checks of single rules need none: rules that are wrong are left
	// out one by one.
	needs []string
	run   func(*pass)
}

// checks returns all warnings, by code.
func checks() []check {
	return []check{
		{"auth-disabled-public", "anyone on the network may call", []string{"auth", "listen", "tls"}, authDisabledPublic},
		{"burst-below-rate", "a bucket holds less than one second of its rate", nil, burstBelowRate},
		{"catch-all-allow", "a rule for everything opens methods that default deny keeps shut", nil, catchAllAllow},
		{"catch-all-deny", "a deny for everything also stops clients' answers", nil, catchAllDeny},
		{"claims-allow-without-default-deny", "some callers are allowed what all others may do as well", nil, claimsAllowWithoutDefaultDeny},
		{"claims-without-oauth", "a rule or a view asks for claims that nobody can present", []string{"auth"}, claimsWithoutOAuth},
		{"default-action-omitted", "nobody can see what happens to the rest", nil, defaultActionOmitted},
		{"direction-mismatch", "a rule waits for a method from the wrong side", nil, directionMismatch},
		{"filter-lists", "clients see tools that they may not call (info)", nil, filterLists},
		{"guardrail-sse-direction", "event streams pass a guardrail by", nil, guardrailSSEDirection},
		{"in-memory-limits", "each replica counts by itself (info, or warning)", []string{"rate_limit_store", "sessions"}, inMemoryLimits},
		{"key-expiry", "an API key is no longer good, or will not be soon", []string{"auth"}, keyExpiry},
		{"legacy-mrtr-method", "a rule on a server request has no counterpart for 2026-07-28", nil, legacyMRTRMethod},
		{"matcher-matches-nothing", "no tool name can match a matcher", nil, matcherMatchesNothing},
		{"needless-discovery-rule", "a rule allows what default deny lets pass anyway", nil, needlessDiscoveryRule},
		{"no-default-upstream", "no client can start a session", []string{"upstreams", "default_upstream"}, noDefaultUpstream},
		{"no-prefix", "federation: an upstream may claim the names of another", []string{"federation", "upstreams"}, noPrefix},
		{"observing-rule", "a rule is tried out and not enforced", nil, observingRule},
		{"overlapping-prefix", "a prefix begins with the prefix of another upstream", []string{"federation", "upstreams"}, overlappingPrefix},
		{"plain-http-upstream", "calls leave the machine without TLS", []string{"upstreams"}, plainHTTPUpstream},
		{"plain-secret", "the file contains a secret", nil, plainSecret},
		{"redact-empty-match", "a redact regex matches the empty text", nil, redactEmptyMatch},
		{"redact-hits-names", "a redact rule rewrites the name of a tool in lists", nil, redactHitsNames},
		{"redact-request-only", "a redact rule leaves answers as they are", nil, redactRequestOnly},
		{"regex-is-literal", "an expression is a plain text", nil, regexIsLiteral},
		{"regex-matches-everything", "an expression chooses nothing", nil, regexMatchesEverything},
		{"route-across-prefix", "a route leads tools to an upstream that does not have their names", []string{"federation", "upstreams", "routes"}, routeAcrossPrefix},
		{"scopes-not-enforced", "API keys have scopes, which do nothing", []string{"auth"}, scopesNotEnforced},
		{"shadowed-rule", "a rule never decides", nil, shadowedRule},
		{"skip-verify", "a certificate is not looked at", nil, skipVerify},
		{"stdio-same-user", "a program runs as the user of the gateway", []string{"upstreams"}, stdioSameUser},
		{"tool-search-off", "a mode of tool search is chosen, and tool search is off", []string{"tool_search"}, toolSearchOff},
		{"tool-without-route", "tools that may pass go nowhere", []string{"upstreams", "routes", "policy"}, toolWithoutRoute},
		{"trusted-proxies-everyone", "every client may state its own address", []string{"trusted_proxies"}, trustedProxiesEveryone},
		{"unknown-method", "a method is written nearly like one of the protocol", nil, unknownMethod},
		{"unreachable-route", "no tool call comes to a route", nil, unreachableRoute},
		{"unused-guardrail", "no rule asks a guardrail", []string{"guardrails", "policy"}, unusedGuardrail},
		{"unused-upstream", "nothing leads to an upstream", []string{"upstreams", "routes", "default_upstream"}, unusedUpstream},
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

// Summary returns in a few words when a warning is said, "" for a code that is
// none of this package.
func Summary(code string) string {
	if code == codeDirective {
		return "a comment to lint does not do what it seems to"
	}
	for _, c := range checks() {
		if c.code == code {
			return c.says
		}
	}
	return ""
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
