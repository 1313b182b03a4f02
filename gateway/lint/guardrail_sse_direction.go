package lint

import "svc/gateway/policy"

// guardrailSSEDirection warns of guardrails on server messages that do not apply to event streams
// (gateway specification, Action: guardrail).
func guardrailSSEDirection(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action == policy.Guardrail.String() && r.ways[down] && !r.Frames {
			p.warn(p.ruleAt(r.index).Field("when").Field("direction"), "add frames: true to check each frame, or deny the streams",
				"rule %s checks plain JSON answers only: messages in event streams of upstreams pass unchecked", r.quoted())
		}
	}
}
