package verdict

import (
	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

// redact rewrites the message. Lists are filtered before, by the names that the upstream
// sent.
func (in *Input) redact(rule *policy.Rule, m *mcp.Message, r *Result) {
	if in.present(m, r); r.Refused != nil {
		return
	}
	r.Action = audit.ActionRedact
	var redacted mcp.Message
	if err := rule.Redact(in.Direction, m, &redacted); err != nil {
		r.refuse(refusal.Redact.WithRule(rule.ID).WithDetail(rule.Message), audit.ActionDeny)
		return
	}
	in.rewrite(m, &redacted, rule.ID, r)
}
