package check

import (
	"fmt"

	"svc/gateway/policy"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/flow"
)

// call is the call that an entry of after makes; its result is the answer.
func (r *RequestSpec) call() *RequestSpec {
	call := *r
	call.Result = nil
	return &call
}

// After returns the labels that a caller has after some calls, in order. A call that is denied sets no
// labels; one that needs approval is taken as granted. The upstream is the one of the call, else the one
// that the configuration selects. Labels that depend on an answer are set if the call has a result.
func (e *Engine) After(calls []RequestSpec, claims *policy.Claims) (labels flow.Labels, err error) {
	for i := range calls {
		c := &calls[i]
		body, err := c.call().encode()
		if err != nil {
			return 0, fmt.Errorf("call %d: %w", i+1, err)
		}
		d, _ := direction(c.Direction)
		a, err := e.Ask(body, d, claims, Given{Upstream: c.Upstream, Restored: c.Restores, Labels: labels})
		if err != nil {
			return 0, fmt.Errorf("call %d: %w", i+1, err)
		}
		if a.Decision.Action == policy.Deny || d != policy.ClientToServer {
			continue
		}
		answer := flow.Answer{Upstream: a.Request.Upstream, Asked: a.Request.Method, Tool: a.Request.Tool, URI: a.Request.URI}
		if c.Result != nil {
			m := Message{Direction: policy.ServerToClient, Result: c.Result}
			if answer.Body, err = m.Encode(); err != nil {
				return 0, fmt.Errorf("result of call %d: %w", i+1, err)
			}
		}
		if e.flow.Scores() {
			answer.Score = detect.ScoreTexts(answer.Body)
		}
		labels |= e.flow.Sets(&answer)
	}
	return labels, nil
}
