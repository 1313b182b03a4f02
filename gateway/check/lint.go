package check

import (
	"slices"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/config"
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
		{"app-only-hidden", "federation: pages of apps may be read whose servers have no view of their own", []string{"federation", "upstreams", "views", "policy"}, appOnlyHidden},
		{"approval-by-address", "a person decides about calls of an address", []string{"auth", "policy"}, approvalByAddress},
		{"approval-no-owner", "it is not known which person is behind a key whose calls need approval", []string{"auth", "policy"}, approvalNoOwner},
		{"approval-not-shared", "replicas ask for approval of the same call again", []string{"policy", "rate_limit_store", "sessions"}, approvalNotShared},
		{"approval-shadows", "a rule with approval hides rules that deny, redact or limit", nil, approvalShadows},
		{"auth-disabled-public", "authentication is off and the address is public", []string{"auth", "listen", "tls"}, authDisabledPublic},
		{"authorization-server-omitted", "an upstream chooses the server at which its operator logs in (info)", []string{"upstreams"}, authorizationServerOmitted},
		{"burst-below-rate", "a bucket holds less than one second of its rate", nil, burstBelowRate},
		{"catch-all-allow", "a rule for everything allows methods that default deny would deny", nil, catchAllAllow},
		{"catch-all-deny", "a deny for everything also stops clients' answers", nil, catchAllDeny},
		{"claims-allow-without-default-deny", "a rule allows some callers a call that all other callers may make as well", nil, claimsAllowWithoutDefaultDeny},
		{"claims-without-oauth", "a rule or a view requires claims, and no tokens are accepted", []string{"auth"}, claimsWithoutOAuth},
		{"default-action-omitted", "default_action is not set", nil, defaultActionOmitted},
		{"direction-mismatch", "a rule has a method that is never sent in its direction", nil, directionMismatch},
		{"filter-lists", "clients see tools that they may not call (info)", nil, filterLists},
		{"flow-hidden", "an allow rule lets calls pass before a rule below looks at labels", nil, flowHidden},
		{"flow-label-unset", "no tool sets a label that rules look at", []string{"data_flow"}, flowLabelUnset},
		{"flow-not-shared", "replicas do not share labels", []string{"data_flow", "rate_limit_store", "sessions"}, flowNotShared},
		{"flow-reader-sends", "tools set a label, and no rule with labels restricts them (info)", []string{"data_flow", "policy"}, flowReaderSends},
		{"flow-shared-key", "one key for all clients, who share their labels (info)", []string{"auth", "data_flow"}, flowSharedKey},
		{codeGovernanceOff, "the policies of the control plane are not enforced", []string{"control_plane"}, governanceOff},
		{"groups-claim", "the claim with the groups is no list", nil, groupsClaim},
		{"guardrail-sse-direction", "a guardrail does not check event streams", nil, guardrailSSEDirection},
		{"id-jag-audience", "an identity provider will refuse the tokens of callers for an upstream", []string{"auth", "upstreams"}, idJAGAudience},
		{"in-memory-limits", "each replica counts by itself (info, or warning)", []string{"rate_limit_store", "sessions"}, inMemoryLimits},
		{"key-expiry", "an API key has expired, or will soon", []string{"auth"}, keyExpiry},
		{"key-id-dot", "the id of a key reads like a secret of another key", []string{"auth"}, keyIDDot},
		{"key-new-principal", "two keys are probably one client, and count as two", []string{"auth"}, keyNewPrincipal},
		{"legacy-mrtr-method", "a rule on a server request has no corresponding rule for 2026-07-28", nil, legacyMRTRMethod},
		{"matcher-matches-nothing", "no tool name can match a matcher", nil, matcherMatchesNothing},
		{"needless-discovery-rule", "a rule allows what default deny lets pass anyway", nil, needlessDiscoveryRule},
		{"no-default-upstream", "no client can start a session", []string{"upstreams", "default_upstream"}, noDefaultUpstream},
		{"no-prefix", "federation: an upstream may claim the names of another", []string{"federation", "upstreams"}, noPrefix},
		{"observing-rule", "a rule is in mode observe and not enforced", nil, observingRule},
		{"overlapping-prefix", "a prefix begins with the prefix of another upstream", []string{"federation", "upstreams"}, overlappingPrefix},
		{"pin-skills-unused", "no client reads skills that are pinned", []string{"federation", "upstreams", "default_upstream"}, pinSkillsUnused},
		{"plain-http-upstream", "requests to another machine without TLS", []string{"upstreams"}, plainHTTPUpstream},
		{"plain-secret", "the file contains a secret", nil, plainSecret},
		{"redact-empty-match", "a redact regex matches the empty string", nil, redactEmptyMatch},
		{"redact-hits-names", "a redact rule rewrites the name of a tool in lists", nil, redactHitsNames},
		{"skill-redacted", "a redact rule for answers names skills, which are never rewritten", []string{"upstreams"}, skillRedacted},
		{"redact-request-only", "a redact rule does not change answers", nil, redactRequestOnly},
		{"regex-is-literal", "an expression is plain text", nil, regexIsLiteral},
		{"regex-matches-everything", "an expression matches everything", nil, regexMatchesEverything},
		{"route-across-prefix", "a route leads tools to an upstream without tools of these names", []string{"federation", "upstreams", "routes"}, routeAcrossPrefix},
		{"scopes-not-enforced", "API keys have scopes, which have no effect", []string{"auth"}, scopesNotEnforced},
		{"session-key-not-shared", "replicas share a store, and each has a session key of its own", []string{"control_plane", "federation", "rate_limit_store", "sessions"}, sessionKeyNotShared},
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
		{"user-namespaces", "a program may make user namespaces", []string{"upstreams"}, userNamespaces},
		{"view-pattern", "federation: no tool of a view can match one of its patterns", []string{"federation", "upstreams", "views"}, viewPattern},
		{"wildcard-above-rate-limit", "a rule for everything precedes a rate limit", nil, wildcardAboveRateLimit},
		{"wildcard-redact-above-deny", "a redact rule for everything precedes a deny", nil, wildcardRedactAboveDeny},
	}
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

// budget bounds the analysis of one file, in units of workBound.
const budget = 25_000_000

// Lint returns all findings about a document: those of start-up and the warnings of this package,
// without those that a comment in the file ignores; errors first, each group in the order of the
// file. now is the time for the expiry of keys.
func Lint(doc *config.Document, now time.Time) []diag.Finding {
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

// AtCheck returns the warnings that 'svc gateway --check' reports too: protection that other
// settings of the file suggest and that is off.
func AtCheck(doc *config.Document, now time.Time) []diag.Finding {
	return slices.DeleteFunc(Lint(doc, now), func(f diag.Finding) bool { return f.Code != codeGovernanceOff })
}

// Sort orders findings as [Lint] does: errors first, then warnings, then infos.
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
	budget *workBound
	code   string // code of the running check

	rules  []rule
	routes []route
	// told are the shadowed rules that another warning has already reported.
	told map[int]bool
	// open are the rules and routes for which the budget did not suffice.
	open []string
}

func newPass(doc *config.Document, file *config.File, now time.Time) *pass {
	p := &pass{doc: doc, file: file, now: now, report: diag.New(), budget: newWorkBound(budget), told: map[int]bool{}}
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

// codeDirective is the code of problems of a directive itself.
const codeDirective = "lint-directive"

// silence removes the findings that comments of the file ignore, and reports comments without
// effect. Errors cannot be ignored.
//
//	# svc-lint: ignore CODE[,CODE…] REASON
func silence(doc *config.Document, found []diag.Finding) []diag.Finding {
	for _, d := range doc.Directives() {
		codes, reason, ok := parseDirective(d.Text)
		complain := func(message, hint string) {
			found = append(found, doc.At(diag.Finding{Code: codeDirective, Severity: diag.Warning, Message: message, Hint: hint, Pos: d.Pos}))
		}
		if !ok {
			complain("the comment cannot be parsed", "write # svc-lint: ignore CODE REASON")
			continue
		}
		if reason == "" {
			complain("the comment gives no reason", "give the reason after the code, so that readers can decide whether it still applies")
			continue
		}
		for _, code := range codes {
			before := len(found)
			found = slices.DeleteFunc(found, func(f diag.Finding) bool {
				return f.Code == code && f.Severity != diag.Error && code != codeDirective &&
					(f.Pos.Line == d.Pos.Line || d.From <= f.Pos.Line && f.Pos.Line <= d.To)
			})
			if len(found) == before {
				complain("the comment silences no "+code+" warning", "remove it, or put it above the entry that it applies to")
			}
		}
	}
	return found
}

// parseDirective parses the text after "svc-lint:".
func parseDirective(text string) (codes []string, reason string, ok bool) {
	word, rest, _ := strings.Cut(text, " ")
	list, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	codes = strings.Split(list, ",")
	ok = word == "ignore" && list != "" && !slices.Contains(codes, "")
	return codes, strings.TrimSpace(reason), ok
}
