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
//
// The file in state_dir has a line for each label that a caller gets, and requests of commands to clear labels
// with their answers. Several processes may have it open. It is written anew when it has grown.
//
//	Set ──▶ places (by caller, bounded) ──▶ journal (before Set returns) ──▶ Store (before Set returns)
//	           ▲                               ▲    │
//	           └────────── lines of others ────┘    └──▶ Show, Clear (commands)
//
// What has no place of its own is restricted and not forgotten: labels of callers for whom there is no room
// belong to all callers without a place, and those of a network (/48) of which too many addresses call to the
// network.
package flow
