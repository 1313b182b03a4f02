package lint

import "svc/gateway/policy"

// guardrailSSEDirection warns of guardrails on what servers send, which event
// streams pass by (gateway specification, Action: guardrail).
func guardrailSSEDirection(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action == policy.Guardrail.String() && r.ways[down] && !r.Frames {
			p.warn(p.ruleAt(r.index).Field("when").Field("direction"), "add frames: true to ask about each frame, or deny the streams",
				"rule %s asks about plain JSON answers only: what an upstream sends as an event stream passes unasked", r.quoted())
		}
	}
}
