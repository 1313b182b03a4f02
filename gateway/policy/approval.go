package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
	"svc/store/api"
)

// Approval is an approval without errors. It is immutable.
type Approval = ApprovalConfig

// ApprovalConfig is the approval of a rule: how a person decides about the calls that it, or a policy
// of the control plane, lets pass with a grant only. A rule with it matches tools/call, prompts/get
// and resources/read of clients and no other message.
type ApprovalConfig struct {
	// ValidFor is how long a grant can be used, and how long a refusal is remembered: from 1s to 24h.
	ValidFor time.Duration `yaml:"valid_for"`
	// Expires is the time after which a request that nobody decided ends: from 1s to 168h.
	Expires time.Duration `yaml:"expires"`
	// NotSelf is true (the caller cannot decide, as far as it is known which person the caller is),
	// false (the caller may decide) or strict (nobody can grant while that person is not known).
	NotSelf NotSelf `yaml:"not_self"`
	// Show is all or none: whether the approver sees the arguments of the call.
	Show string `yaml:"show"`
	// Note is a text for the approver, at most 512 characters; it never reaches the caller.
	Note string `yaml:"note"`
}

// NotSelf is true, false or strict; the file may have true and false without quotes.
type NotSelf string

// BoolOrText marks the type for the loader of the file.
func (NotSelf) BoolOrText() {}

// Defaults of an approval, and the shortest time.
const (
	defaultValidFor = time.Hour
	defaultExpires  = 24 * time.Hour
	minApproval     = time.Second
)

// SetDefaults sets the documented defaults.
func (c *ApprovalConfig) SetDefaults() {
	*c = ApprovalConfig{ValidFor: defaultValidFor, Expires: defaultExpires, NotSelf: api.SelfForbidden, Show: api.ShowAll}
}

// Validate reports the errors of the section.
func (c *ApprovalConfig) Validate(at diag.At) {
	within := func(at diag.At, got, most time.Duration) {
		if got < minApproval || got > most {
			at.Hint("use a duration from %s to %s", minApproval, hours(most)).Errorf("range", "%s is out of range", got)
		}
	}
	within(at.Field("valid_for"), c.ValidFor, api.MaxApprovalValidFor)
	within(at.Field("expires"), c.Expires, api.MaxApprovalExpires)
	if !slices.Contains(api.ApprovalNotSelf, string(c.NotSelf)) {
		at.Field("not_self").Hint("use true, false or strict").Errorf("enum", "not_self is %q", string(c.NotSelf))
	}
	if !slices.Contains(api.ApprovalShow, c.Show) {
		at.Field("show").Hint("use all or none").Errorf("enum", "show is %q", c.Show)
	}
	plainText(at.Field("note"), "note", c.Note)
}

func hours(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// compile returns the approval of a section. It returns an error for one that was not validated.
func (c *ApprovalConfig) compile() (*Approval, error) {
	report := diag.New()
	c.Validate(report.Root())
	if found := report.Findings(); len(found) > 0 {
		return nil, fmt.Errorf("approval.%s: %s", found[0].Path, found[0].Message)
	}
	copied := *c
	return &copied, nil
}

// ApprovalOf returns the approval of a policy of the control plane, with the defaults of the
// members that are empty. The error names the member that cannot be used.
func ApprovalOf(a *api.Approval) (*Approval, error) {
	var c ApprovalConfig
	c.SetDefaults()
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"validFor", a.ValidFor, &c.ValidFor}, {"expires", a.Expires, &c.Expires}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(d.text); err != nil {
			return nil, fmt.Errorf("approval.%s is no duration: %q", d.name, d.text)
		}
	}
	c.NotSelf, c.Show, c.Note = NotSelf(cmp.Or(a.NotSelf, string(c.NotSelf))), cmp.Or(a.Show, c.Show), a.Note
	return c.compile()
}

// approvable are the methods of the messages for which a person can be asked.
var approvable = []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead}

// Approvable reports whether a person can be asked about messages of a method: tools/call,
// prompts/get and resources/read. Rules and policies with approval look only at those.
func Approvable(method string) bool { return slices.Contains(approvable, method) }

// validateApproval reports the errors of the approval of a rule.
func (r *RuleConfig) validateApproval(at diag.At) {
	if r.Approval == nil {
		return
	}
	r.Approval.Validate(at.Field("approval"))
	if r.Action != Allow.String() {
		at.Field("approval").Hint("remove it, or make the action allow").
			Errorf("unused", "approval is only for the allow action")
	}
	w := r.When
	if w == nil {
		return
	}
	if d := w.Direction; d != nil && *d != clientToServer {
		at.Field("when").Field("direction").Hint("remove direction, or approval").
			Errorf("direction", "a person decides about requests of a client only")
	}
	if w.Method != "" && !Approvable(w.Method) {
		at.Field("when").Field("method").Hint("use %s, or remove method", strings.Join(approvable, ", ")).
			Errorf("never-matches", "a person cannot be asked about %s", w.Method)
	}
}

// CodeNoControlPlane is the code of the findings of [Config.CheckApprovals].
const CodeNoControlPlane = "needs-control-plane"

// CheckApprovals reports rules with approval where nobody can be asked, because the file has no
// control plane, or no key for it.
func (c *Config) CheckApprovals(at diag.At, controlPlane bool) {
	for i := range c.Rules {
		if c.Rules[i].Approval != nil && !controlPlane {
			at.Field("rules").Index(i).Field("approval").Hint("set control_plane.url and control_plane.ingest_key").
				Errorf(CodeNoControlPlane, "approval needs a control plane, where people decide")
		}
	}
}

// maxMessage bounds the message of a rule and the note of an approval, in characters.
const maxMessage = 512

// plainText reports a text that is too long or not plain text.
func plainText(at diag.At, name, text string) {
	if n := utf8.RuneCountInString(text); n > maxMessage {
		at.Errorf("range", "the %s has %d characters, at most %d are allowed", name, n, maxMessage)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && !unicode.IsGraphic(c) }) {
		at.Hint("write plain text").Errorf("format", "the %s has characters that cannot be shown", name)
	}
}
