// Package arguments decides conditions on the arguments of a tools/call or prompts/get:
// when.arguments of a gateway rule, and the condition tool_arguments of a policy of the control
// plane.
//
// A condition is a map from a JSON Pointer (with * for each element or member) to a matcher. All
// conditions of a set of rules share one [Plan], so that a request's arguments are walked once,
// over the bytes that the envelope scan has checked and without building a tree. The result is an
// [Outcome] with four values, because the effect of a missing argument or one of another type
// depends on the action of the rule.
//
// The package is pure, and does not depend on rules or policies.
package arguments
