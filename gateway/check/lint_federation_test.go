package check

import (
	"slices"
	"strings"
	"testing"
)

// codesOf returns the codes of the findings for an example.
func codesOf(example string) (codes []string) {
	for _, f := range lintRun(example) {
		codes = append(codes, f.Code)
	}
	return codes
}

// With federation every name has an owner without a route, the gateway itself starts sessions,
// and lists show the allowed items, so the warnings about these do not apply.
func TestFederationNeedsNeitherRoutesNorADefaultUpstream(t *testing.T) {
	upstreams := `
upstreams:
  - {name: crm, url: "http://127.0.0.1:3000/mcp", prefix: PREFIX}
  - {name: web, url: "http://127.0.0.1:3001/mcp"}
policy:
  default_action: allow
  rules:
    - {id: no-delete, action: deny, when: {tool_name: crm_delete}}
`
	if got := codesOf("federation: {enabled: true}\n" + strings.Replace(upstreams, "PREFIX", "crm_", 1)); !slices.Equal(got, []string{"no-prefix"}) {
		t.Errorf("with federation: %q", got)
	}
	for _, code := range []string{"no-default-upstream", "tool-without-route", "unused-upstream", "filter-lists"} {
		if got := codesOf(strings.Replace(upstreams, ", prefix: PREFIX", "", 1)); !slices.Contains(got, code) {
			t.Errorf("without federation %s is not among %q", code, got)
		}
	}
}

func TestRoutesAcrossPrefixes(t *testing.T) {
	const upstreams = `
federation: {enabled: true}
upstreams:
  - {name: crm, url: "http://127.0.0.1:3000/mcp", prefix: crm_}
  - {name: web, url: "http://127.0.0.1:3001/mcp"}
routes:
`
	for route, warned := range map[string]bool{
		`{match: {tool_name: "*"}, upstream: crm}`:                true,
		`{match: {tool_name: "*"}, upstream: web}`:                true, // takes names of crm_… from crm
		`{match: {tool_prefix: crm}, upstream: web}`:              true,
		`{match: {tool_name_in: [crm_a, b]}, upstream: crm}`:      true,
		`{match: {tool_regex: "crm_(a|b)"}, upstream: crm}`:       false,
		`{match: {tool_prefix: crm_admin_}, upstream: crm}`:       false,
		`{match: {tool_glob: "search*"}, upstream: web}`:          false,
		`{match: {tool_name_in: [search, fetch]}, upstream: web}`: false,
	} {
		if got := slices.Contains(codesOf(upstreams+"  - "+route+"\n"), "route-across-prefix"); got != warned {
			t.Errorf("%s: warned %v, want %v: %q", route, got, warned, codesOf(upstreams+"  - "+route+"\n"))
		}
	}
}

func TestPatternsOfViews(t *testing.T) {
	for text, warned := range map[string]bool{
		`{name: v, upstreams: [crm], tools: ["crm_*"]}`:         false,
		`{name: v, upstreams: [crm], tools: ["crm_admin_x"]}`:   false,
		`{name: v, upstreams: [crm], tools: ["*"]}`:             false,
		`{name: v, upstreams: [crm], tools: ["cr*"]}`:           false,
		`{name: v, upstreams: [crm], tools: ["?rm_x"]}`:         false,
		`{name: v, upstreams: [crm], tools: ["cr"]}`:            true,
		`{name: v, upstreams: [crm], tools: ["search"]}`:        true,
		`{name: v, upstreams: [crm], tools: ["web_*"]}`:         true,
		`{name: v, upstreams: [crm, plain], tools: ["search"]}`: false,
		`{name: v, upstreams: [plain], tools: ["crm_*"]}`:       true,
		`{name: v, upstreams: [plain], tools: ["c*"]}`:          false,
		`{name: v, upstreams: [web], tools: ["web_long_x"]}`:    true,
		`{name: v, upstreams: [long], tools: ["web_long_x"]}`:   false,
		`{name: v, upstreams: [web, long], tools: ["web_lo*"]}`: false,
	} {
		example := `
federation: {enabled: true}
upstreams:
  - {name: crm, url: "http://127.0.0.1:3000/mcp", prefix: crm_}
  - {name: web, url: "http://127.0.0.1:3001/mcp", prefix: web_}
  - {name: long, url: "http://127.0.0.1:3001/mcp", prefix: web_long_}
  - {name: plain, url: "http://127.0.0.1:3002/mcp"}
views:
  - ` + text + "\n"
		if got := slices.Contains(codesOf(example), "view-pattern"); got != warned {
			t.Errorf("%s: warned %v, want %v: %q", text, got, warned, codesOf(example))
		}
	}
	if got := codesOf("federation: {enabled: true}\nauth: {enabled: false}\nviews: [{name: v, upstreams: [tools], claims: {groups: [staff]}}]\n"); !slices.Contains(got, "claims-without-oauth") {
		t.Errorf("%q", got)
	}
}
