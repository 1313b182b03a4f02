// Package pinning compares what upstreams list with the definitions that an operator
// approved (upstreams[].pin_tools): it tells of tools, prompts and instructions that are
// others, leaves them out of lists, and refuses their calls where the configuration says
// block.
//
// What counts as a change, and the file of approved definitions, belong to package pins.
// Where the gateway merges the lists of all upstreams, package federation reads them and
// hands them over ([Guard.Note], [Guard.Keep]); without federation the guard reads them
// itself ([Guard.Run]) and looks at the answers that pass ([View.Cut]).
package pinning
