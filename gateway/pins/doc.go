// Package pins stores the definitions of tools and prompts, and the instructions,
// that an operator has approved, and compares them with the listed ones: each is
// approved, changed or new (upstreams[].pin_tools).
//
// It owns the definition of a change, the file of pins, and the comparison that an
// operator reads before an approval. Reading the lists of upstreams, omitting
// items and refusing calls belong to its callers.
package pins
