package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svc/gateway/policy/flow"
	"svc/gateway/policy/match"
)

// naive decides as the specification is written: top-down, one rule after the
// other.
func naive(cfg Config, q *Request) int {
	for i := range cfg.Rules {
		if naiveMatch(&cfg.Rules[i], q) {
			return i
		}
	}
	return -1
}

func naiveMatch(r *RuleConfig, q *Request) bool {
	w := r.When
	call := q.Direction == ClientToServer && q.Method == "tools/call" && q.HasTool
	switch {
	case w.ToolName != nil && *w.ToolName == "*":
	case w.ToolName != nil && (!call || *w.ToolName != q.Tool),
		w.ToolPrefix != nil && (!call || !strings.HasPrefix(q.Tool, *w.ToolPrefix)),
		w.ToolNameIn != nil && (!call || !slices.Contains(w.ToolNameIn, q.Tool)),
		w.ToolRegex != nil && (!call || !regexp.MustCompile(`^(?:`+*w.ToolRegex+`)$`).MatchString(q.Tool)):
		return false
	case w.ToolGlob != nil:
		if ok, _ := path.Match(*w.ToolGlob, q.Tool); !call || !ok {
			return false
		}
	}
	d := "client_to_server"
	if w.Direction != nil {
		d = *w.Direction
	}
	if d != "" && d != q.Direction.String() || w.Method != "" && w.Method != q.Method ||
		w.ResultType != "" && (q.Direction != ServerToClient || q.ResultType != w.ResultType) {
		return false
	}
	if r.Approval != nil && q.Method != "tools/call" && q.Method != "prompts/get" && q.Method != "resources/read" {
		return false
	}
	if len(w.Upstream) > 0 && !slices.Contains(w.Upstream, q.Upstream) {
		return false
	}
	has := modelNames.In(q.Labels)
	if slices.ContainsFunc(w.LabelsAll, func(l string) bool { return !slices.Contains(has, l) }) ||
		w.LabelsAny != nil && !slices.ContainsFunc(w.LabelsAny, func(l string) bool { return slices.Contains(has, l) }) {
		return false
	}
	if w.URIPrefix != nil {
		unclear := strings.Contains(q.URI, "%") && (r.Action == "deny" || r.Approval != nil)
		if q.Method != "resources/read" || !unclear && !strings.HasPrefix(q.URI, *w.URIPrefix+"/") {
			return false
		}
	}
	c := w.Claims
	if c == nil || len(c.Groups)+len(c.GroupsIn)+len(c.ScopesIn)+len(c.SubjectIn) == 0 {
		return true
	}
	if q.Claims == nil {
		return false
	}
	// A claim that cannot be read meets conditions, unless they permit something.
	may := func(u Unreadable) bool {
		return (r.Action != "allow" || r.Approval != nil) && q.Claims.Unreadable&u != 0
	}
	any := func(u Unreadable, want, have []string) bool {
		return len(want) == 0 || may(u) || slices.ContainsFunc(want, func(s string) bool { return slices.Contains(have, s) })
	}
	return any(UnreadableGroups, c.GroupsIn, q.Claims.Groups) && any(UnreadableScopes, c.ScopesIn, q.Claims.Scopes) &&
		any(UnreadableSubject, c.SubjectIn, []string{q.Claims.Subject}) &&
		(may(UnreadableGroups) || !slices.ContainsFunc(c.Groups, func(g string) bool { return !slices.Contains(q.Claims.Groups, g) }))
}

// modelNames are the labels of generated rules and requests.
var modelNames = flow.NewNames("private", "untrusted")

// modelTools are the tool names of generated rules and requests.
var modelTools = rapid.SampledFrom([]string{"a", "ab", "abc", "abd", "b", "ba", "bc_x", "ab_x", "x", "aé"})

// modelWhen generates conditions of all kinds.
func modelWhen() *rapid.Generator[When] {
	names := modelTools
	groups := rapid.SliceOfN(rapid.SampledFrom([]string{"g1", "g2", "g3"}), 0, 2)
	subjects := rapid.SliceOfN(rapid.SampledFrom([]string{"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10"}), 0, 10)
	claims := rapid.Custom(func(t *rapid.T) *ClaimsConfig {
		return &ClaimsConfig{Groups: groups.Draw(t, "groups"), GroupsIn: groups.Draw(t, "groups_in"),
			ScopesIn: groups.Draw(t, "scopes_in"), SubjectIn: subjects.Draw(t, "subject_in")}
	})
	return rapid.Custom(func(t *rapid.T) When {
		w := When{Method: rapid.SampledFrom([]string{"", "", "tools/call", "prompts/get", "ping", "tasks/get"}).Draw(t, "method")}
		switch rapid.IntRange(0, 7).Draw(t, "matcher") {
		case 1:
			w.ToolName = ptr(rapid.OneOf(names, rapid.Just("*")).Draw(t, "tool_name"))
		case 2:
			w.ToolPrefix = ptr(names.Draw(t, "tool_prefix"))
		case 3, 4:
			w.ToolGlob = ptr(rapid.SampledFrom([]string{"*", "a*", "*_x", "?", "a?", "[ab]*", "a*c", "*b*", "ab", "??_x", "[^a]*", "b*_x"}).Draw(t, "tool_glob"))
		case 5:
			w.ToolRegex = ptr(rapid.SampledFrom([]string{"a|b", "ab.*", ".*x", "a[bc]?", "(?i)AB", "", "^ab", "a|ab"}).Filter(func(s string) bool { return s != "" }).Draw(t, "tool_regex"))
		case 6:
			w.ToolNameIn = rapid.SliceOfN(names, 1, 3).Draw(t, "tool_name_in")
		}
		switch rapid.IntRange(0, 5).Draw(t, "direction") {
		case 1:
			w.Direction = ptr("")
		case 2:
			w.Direction = ptr("server_to_client")
			w.ResultType = rapid.SampledFrom([]string{"", "input_required"}).Draw(t, "result_type")
		case 3:
			w.Direction = ptr("client_to_server")
		}
		if rapid.IntRange(0, 2).Draw(t, "claimed") == 0 {
			w.Claims = claims.Draw(t, "claims")
		}
		w.Upstream = rapid.SampledFrom([][]string{nil, nil, {"u1"}, {"u1", "u2"}}).Draw(t, "upstream")
		if w.Direction != nil && *w.Direction != "client_to_server" {
			return w
		}
		w.LabelsAll = rapid.SampledFrom([][]string{nil, nil, nil, {"private"}, {"private", "untrusted"}}).Draw(t, "labels_all")
		w.LabelsAny = rapid.SampledFrom([][]string{nil, nil, nil, {"untrusted"}, {"private", "untrusted"}}).Draw(t, "labels_any")
		if len((&match.Written{Name: w.ToolName, Prefix: w.ToolPrefix, Glob: w.ToolGlob, Regex: w.ToolRegex, NameIn: w.ToolNameIn}).Keys()) == 0 && w.Method == "" {
			w.URIPrefix = rapid.SampledFrom([]*string{nil, ptr("file:///a"), ptr("file:///a/b")}).Draw(t, "uri_prefix")
		}
		return w
	})
}

// modelRequest generates messages of both directions, with and without identity.
func modelRequest() *rapid.Generator[Request] {
	groups := rapid.SliceOfN(rapid.SampledFrom([]string{"g1", "g2", "g3"}), 0, 2)
	methods := rapid.SampledFrom([]string{"tools/call", "tools/call", "tools/call", "prompts/get", "resources/read", "ping", "tasks/get", ""})
	return rapid.Custom(func(t *rapid.T) Request {
		q := Request{Direction: Direction(rapid.IntRange(0, 1).Draw(t, "way")), Method: methods.Draw(t, "method"),
			ResultType: rapid.SampledFrom([]string{"", "input_required", "complete"}).Draw(t, "result"),
			Upstream:   rapid.SampledFrom([]string{"", "u1", "u2", "u3"}).Draw(t, "upstream")}
		if q.Method == "tools/call" {
			q.Tool, q.HasTool = modelTools.Draw(t, "tool"), true
		}
		if q.Method == "resources/read" {
			q.URI = rapid.SampledFrom([]string{"file:///a/x", "file:///a/b/x", "file:///c", "file:///%25252525252e"}).Draw(t, "uri")
		}
		q.Labels = modelNames.Of(rapid.SampledFrom([][]string{nil, {"private"}, {"untrusted"}, {"private", "untrusted"}}).Draw(t, "labels")...)
		if rapid.Bool().Draw(t, "verified") {
			q.Claims = &Claims{Subject: rapid.SampledFrom([]string{"s1", "s10", "sx"}).Draw(t, "subject"),
				Groups: groups.Draw(t, "of"), Scopes: groups.Draw(t, "scopes"), Unreadable: Unreadable(rapid.IntRange(0, 14).Draw(t, "unreadable") / 2)}
		}
		return q
	})
}

// drawActions gives rules one of the actions that differ in what they match, or approval where their
// conditions permit it.
func drawActions(t *rapid.T, list []RuleConfig) {
	for i := range list {
		r, w := &list[i], list[i].When
		r.Action = rapid.SampledFrom([]string{"allow", "deny", "approval"}).Draw(t, "action")
		if r.Action == "allow" && (w.LabelsAll != nil || w.LabelsAny != nil) {
			r.Action = "deny"
		}
		if r.Action != "approval" {
			continue
		}
		r.Action = "allow"
		if (w.Method == "" || Approvable(w.Method)) && (w.Direction == nil || *w.Direction == "client_to_server") {
			r.Approval = withDefaults()
		} else if w.LabelsAll != nil || w.LabelsAny != nil {
			r.Action = "deny"
		}
	}
}

// The engine decides like the naive evaluator for all rules and requests.
func TestDecideModel(t *testing.T) {
	when, request := modelWhen(), modelRequest()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Rules: rules(rapid.SliceOfN(when, 0, 12).Draw(t, "rules")...)}
		drawActions(t, cfg.Rules)
		s, err := Compile(cfg, modelNames.List()...)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			q := request.Draw(t, "request")
			want := naive(cfg, &q)
			got := -1
			if d := s.Decide(&q); d.Rule != nil {
				got = d.Rule.Index
			}
			if got != want {
				t.Fatalf("rule %d, want %d, for %+v", got, want, q)
			}
		}
	})
}
