// Package pins compares what upstreams list with the definitions that an operator approved
// (upstreams[].pin_tools, upstreams[].pin_skills): it logs tools, prompts, instructions and skills that
// differ, omits them from lists, and refuses their calls when the configuration is block. Files of
// skills are compared by their bytes wherever a message has the contents of a resource.
//
// It owns the definition of a change, the file of approved definitions (each is approved, changed or
// new), and the comparison that an operator reads before an approval.
//
// [catalog.Reader] passes each list that it reads to the guard ([Guard.Note], [Guard.Keep]). Without
// federation the guard also checks the lists in responses that are forwarded, and with federation too
// what these have of skills ([View.Cut]).
package pins
