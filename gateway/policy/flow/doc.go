// Package flow controls data flow by labels: what a caller has read decides what it may send
// (design: no model judges texts, the combination of calls is controlled).
//
// A label is a name that the administrator declares ([Config]), such as untrusted or private. An
// answer of a labeled tool, upstream or URI sets it for the caller before the first byte of the answer
// is passed on ([Table.Sets], [Memory.Set]). Rules and policies of the control plane look at the labels
// of the caller ([Memory.Of]). A label ends a window after the last message that set it.
//
//	answer of an upstream ──▶ Table.Sets ──▶ Memory.Set ──▶ state_dir, Redis ──▶ client
//	request of a client   ──▶ Memory.Of  ──▶ rules and policies              ──▶ upstream
//
// A label only restricts: no rule allows more because of one.
package flow
