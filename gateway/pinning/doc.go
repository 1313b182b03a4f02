// Package pinning compares the lists of upstreams with the definitions that an operator
// approved (upstreams[].pin_tools): it logs tools, prompts and instructions that differ,
// omits them from lists, and refuses their calls when the configuration is block.
//
// Package pins owns the definition of a change and the file of approved definitions.
// Where the gateway merges the lists of all upstreams, package federation reads the
// lists and passes them to the guard ([Guard.Note], [Guard.Keep]); without federation
// the guard reads them itself ([Guard.Run]) and checks the responses that are forwarded
// ([View.Cut]).
package pinning
