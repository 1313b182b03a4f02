// Package pins remembers the definitions of tools and prompts, and the
// instructions, that an operator has approved, and tells which of those that an
// upstream lists now are the same, changed or new (upstreams[].pin_tools).
//
// It owns what counts as a change, the file of pins, and the comparison that an
// operator reads before an approval. Reading the lists of upstreams, leaving items
// out and refusing calls belong to its users.
package pins
