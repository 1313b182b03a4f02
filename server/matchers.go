package server

import (
	"encoding/json"

	"svc/gateway/policy/arguments"
	"svc/store/api"
)

// maxMatcherErrors bounds the errors that are reported for one condition on arguments.
const maxMatcherErrors = 20

// problems returns what is wrong with a body, keyed by field. A condition on arguments is checked
// with the code that gateways parse it with.
func problems(body validator) map[string]string { return withMatchers(body, body.Validate()) }

// withMatchers adds what is wrong with the condition on arguments of a body, if it has one.
func withMatchers(body any, wrong map[string]string) map[string]string {
	policy, ok := body.(interface{ Matchers() json.RawMessage })
	if !ok {
		return wrong
	}
	raw := policy.Matchers()
	if raw == nil {
		return wrong
	}
	_, errs := arguments.Parse(raw)
	for _, e := range errs[:min(len(errs), maxMatcherErrors)] {
		field := "condition.arguments"
		if e.Pointer != "" {
			field += "." + api.CleanText(e.Pointer, 2*api.MaxID)
		}
		if e.Not {
			field += ".not"
		}
		if e.Key != "" {
			field += "." + api.CleanText(e.Key, api.MaxID)
		}
		message := e.Message
		if e.Hint != "" {
			message += "; " + e.Hint
		}
		if wrong == nil {
			wrong = map[string]string{}
		}
		if wrong[field] == "" {
			wrong[field] = api.CleanText(message, api.MaxDescription)
		}
	}
	return wrong
}
