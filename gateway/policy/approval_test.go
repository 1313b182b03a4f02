package policy

import (
	"strings"
	"testing"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/policy/arguments"
	"svc/store/api"
)

// withDefaults is the approval that {} means.
func withDefaults() *ApprovalConfig {
	c := new(ApprovalConfig)
	c.SetDefaults()
	return c
}

func TestValidateApproval(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *RuleConfig)
		want   string // findings, separated by blanks
	}{
		{"all defaults", func(*RuleConfig) {}, ""},
		{"the shortest times", func(r *RuleConfig) { r.Approval.ValidFor, r.Approval.Expires = time.Second, time.Second }, ""},
		{"the longest times", func(r *RuleConfig) { r.Approval.ValidFor, r.Approval.Expires = 24*time.Hour, 168*time.Hour }, ""},
		{"too short", func(r *RuleConfig) { r.Approval.ValidFor, r.Approval.Expires = time.Second-1, 0 }, "approval.valid_for:range approval.expires:range"},
		{"too long", func(r *RuleConfig) { r.Approval.ValidFor, r.Approval.Expires = 24*time.Hour+1, 168*time.Hour+1 }, "approval.valid_for:range approval.expires:range"},
		{"not_self strict", func(r *RuleConfig) { r.Approval.NotSelf = "strict" }, ""},
		{"not_self unknown", func(r *RuleConfig) { r.Approval.NotSelf = "yes" }, "approval.not_self:enum"},
		{"not_self empty", func(r *RuleConfig) { r.Approval.NotSelf = "" }, "approval.not_self:enum"},
		{"show unknown", func(r *RuleConfig) { r.Approval.Show = "some" }, "approval.show:enum"},
		{"a long note", func(r *RuleConfig) { r.Approval.Note = strings.Repeat("ä", 512) }, ""},
		{"a note that is too long", func(r *RuleConfig) { r.Approval.Note = strings.Repeat("ä", 513) }, "approval.note:range"},
		{"a note that turns text around", func(r *RuleConfig) { r.Approval.Note = "a\u202eb" }, "approval.note:format"},
		{"deny", func(r *RuleConfig) { r.Action = "deny" }, "approval:unused"},
		{"strip_app", func(r *RuleConfig) { r.Action = "strip_app" }, "approval:unused"},
		{"mode observe", func(r *RuleConfig) { r.Mode = "observe" }, ""},
		{"method tools/call", func(r *RuleConfig) { r.When.Method = "tools/call" }, ""},
		{"method resources/read", func(r *RuleConfig) { r.When.Method = "resources/read" }, ""},
		{"another method", func(r *RuleConfig) { r.When.Method = "tools/list" }, "when.method:never-matches"},
		{"direction up", func(r *RuleConfig) { r.When.Direction = ptr("client_to_server") }, ""},
		{"direction down", func(r *RuleConfig) { r.When.Direction = ptr("server_to_client") }, "when.direction:direction"},
		{"both directions", func(r *RuleConfig) { r.When.Direction = ptr("") }, "when.direction:direction"},
	} {
		r := RuleConfig{ID: "r", Action: "allow", When: &When{}, Approval: withDefaults()}
		c.change(&r)
		cfg := Config{Rules: []RuleConfig{r}}
		report := diag.New()
		cfg.Validate(report.Root())
		var got []string
		for _, f := range report.Findings() {
			got = append(got, strings.TrimPrefix(f.Path, "rules[0].")+":"+f.Code)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
		if _, err := Compile(cfg); (err != nil) != (c.want != "") {
			t.Errorf("%s: compiled with %v", c.name, err)
		}
	}
}

func TestCheckApprovals(t *testing.T) {
	cfg := Config{Rules: []RuleConfig{{ID: "a", Action: "allow", When: &When{}}, {ID: "b", Action: "allow", When: &When{}, Approval: withDefaults()}}}
	for _, controlPlane := range []bool{true, false} {
		report := diag.New()
		cfg.CheckApprovals(report.Root(), controlPlane)
		found := report.Findings()
		if controlPlane && len(found) > 0 || !controlPlane && (len(found) != 1 || found[0].Path != "rules[1].approval" || found[0].Code != CodeNoControlPlane) {
			t.Errorf("with a control plane: %v, found %v", controlPlane, found)
		}
	}
}

// A rule with approval does not let a request avoid it by something that the rule cannot evaluate, and
// no such request passes without a person.
func TestApprovalFailsClosed(t *testing.T) {
	above := arguments.Config{"/amounts/*": {Test: arguments.Test{Min: []byte("101")}}}
	s := mustCompile(t, Config{DefaultAction: ptr("allow"), Rules: []RuleConfig{
		{ID: "r", Action: "allow", Approval: withDefaults(), When: &When{ToolName: ptr("read"), Arguments: above}},
		{ID: "g", Action: "allow", Approval: withDefaults(), When: &When{ToolName: ptr("mail"), Claims: &ClaimsConfig{GroupsIn: []string{"temps"}}}},
		{ID: "p", Action: "allow", Approval: withDefaults(), When: &When{Method: "prompts/get"}},
		{ID: "all", Action: "allow", Approval: withDefaults(), When: &When{Upstream: []string{"u"}}},
	}})
	mail := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mail"}}`
	for _, c := range []struct {
		name, body   string
		upstream     string
		claims       *Claims
		rule, reason string
	}{
		{name: "an amount above", body: call(`{"amounts":[1,101]}`), rule: "r"},
		{name: "amounts below", body: call(`{"amounts":[1,2]}`)},
		{name: "no amounts", body: call(`{}`), rule: "r"},
		{name: "an amount as text", body: call(`{"amounts":["101"]}`), rule: "r", reason: ReasonArgumentType},
		{name: "two readings", body: call(`{"amounts":[1],"Amounts":[101]}`), rule: "r", reason: ReasonArgumentType},
		{name: "too many amounts", body: call(`{"amounts":[` + strings.Repeat("1,", 100_000) + `1]}`), rule: "r", reason: ReasonArgumentLimit},
		{name: "a member of the group", body: mail, claims: &Claims{Groups: []string{"temps"}}, rule: "g"},
		{name: "of another group", body: mail, claims: &Claims{Groups: []string{"staff"}}},
		{name: "groups that cannot be read", body: mail, claims: &Claims{Unreadable: UnreadableGroups}, rule: "g", reason: ReasonClaimsUnreadable},
		{name: "a prompt", body: `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`, rule: "p"},
		{name: "a resource", body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a://b"}}`, upstream: "u", rule: "all"},
		{name: "a list", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, upstream: "u"},
		{name: "a notification", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, upstream: "u"},
		{name: "an answer of the client", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, upstream: "u"},
	} {
		q := request(t, c.body)
		q.Claims, q.Upstream = c.claims, c.upstream
		d := s.Decide(&q)
		if d.RuleID != c.rule || d.Reason != c.reason || (d.Action == Deny) != (c.reason != "") {
			t.Errorf("%s: %+v, want rule %q, reason %q", c.name, d, c.rule, c.reason)
		}
		explained, steps := s.Explain(&q)
		if explained.RuleID != d.RuleID || explained.Action != d.Action || c.rule == "" && steps[3].Reason == "" {
			t.Errorf("%s: explained %+v, %+v", c.name, explained, steps)
		}
	}
}

func TestApprovalOf(t *testing.T) {
	for _, c := range []struct {
		name string
		in   api.Approval
		want Approval // ValidFor 0: an error
	}{
		{"all defaults", api.Approval{}, Approval{time.Hour, 24 * time.Hour, "true", "all", ""}},
		{"all members", api.Approval{ValidFor: "10m", Expires: "168h", NotSelf: "strict", Show: "none", Note: "n"}, Approval{10 * time.Minute, 168 * time.Hour, "strict", "none", "n"}},
		{"no duration", api.Approval{ValidFor: "1d"}, Approval{}},
		{"too long", api.Approval{ValidFor: "25h"}, Approval{}},
		{"too short", api.Approval{Expires: "0s"}, Approval{}},
		{"not_self unknown", api.Approval{NotSelf: "maybe"}, Approval{}},
		{"show unknown", api.Approval{Show: "ALL"}, Approval{}},
		{"a long note", api.Approval{Note: strings.Repeat("x", 513)}, Approval{}},
	} {
		got, err := ApprovalOf(&c.in)
		if err != nil != (c.want.ValidFor == 0) || err == nil && *got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}
