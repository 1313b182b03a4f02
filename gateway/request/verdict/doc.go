// Package verdict decides about one message in the gateway: a request, a JSON response, or
// a frame of an event stream. All three go through [Judge], which performs the steps in a
// fixed order, so that none is missing for one of them: rules with their actions
// (redaction, rate limit, guardrail, removal of interactive content), lists, scores,
// policies of the control plane.
//
// The data of the decision is in [Input]; the decision is in [Result]. This package sends
// and records nothing.
package verdict
