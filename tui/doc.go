// Package tui is the terminal interface of svc: live traces, a trace with its
// spans, statistics, agents, policies, budgets and SLA targets on one screen
// that is driven by keys and mouse.
//
// It owns what is drawn and how it is steered, the bounded memory of traces,
// the filter language, and the following of a stream of traces with its
// reconnects. It leaves to others where traces come from (a [Source]), how the
// control plane is asked (a [Plane], which server/client is), flags, keys and
// exit codes (package cli).
//
// Nothing in Update or View waits: what may wait runs in commands that end with
// a time limit or with the program. Every string from outside is made harmless
// by clean before it is drawn. The tui is a REST client like any other; it knows
// neither store nor gateway.
package tui
