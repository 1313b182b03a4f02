// Package background has what the control plane does without a request: SLA targets, retention,
// messages to webhooks, and the check that its stores take writes.
//
// # Evaluate
//
// Evaluate is the background work of the control plane: the SLA evaluator,
// which writes violations, retention, which removes old data, and the end of approvals whose
// time is over. The package decides
// when that is done and what counts as a breach; statistics, storage and leases are the
// store's.
//
// Each worker is a value whose Run blocks until its context ends. When several
// processes use one store, the holder of a lease does the work; the lease of a crashed
// process expires after its time to live. Progress is stored, so a restart neither
// repeats nor skips work.
//
// # Messages
//
// [Sender] sends the messages about events that package record has queued, and [NewPost]
// decides which addresses it may reach. Events about states (targets, policies) are queued by
// the evaluator, with the state of which the last message was.
//
// # Readiness
//
// Readiness checks whether a store takes writes, by writing to it. It decides
// when to write and how long a write may take; the callers decide about the
// consequences.
package background
