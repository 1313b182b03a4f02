// Package pins compares what upstreams list with the definitions that an operator approved
// (upstreams[].pin_tools): it logs tools, prompts and instructions that differ, omits them from
// lists, and refuses their calls when the configuration is block.
//
// It owns the definition of a change, the file of approved definitions (each is approved, changed or
// new), and the comparison that an operator reads before an approval.
//
// [catalog.Reader] passes each list that it reads to the guard ([Guard.Note], [Guard.Keep]). Without
// federation the guard also checks the responses that are forwarded ([View.Cut]).
package pins
