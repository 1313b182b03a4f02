// Package tui is the terminal interface of svc: live traces, a trace with its
// spans, statistics, agents, policies, budgets and SLA targets on one screen,
// with keys and mouse.
//
// The package contains drawing and input, the bounded memory of traces, the
// filter language, and following a stream of traces with reconnects. The source
// of traces is a [Source]; the calls of the control plane are a [Plane], which
// server/client implements; flags, API keys and exit codes are those of package
// cli.
//
// Update and View never block: blocking work runs in commands, which end with a
// timeout or with the program. Every string from outside is passed through clean
// before it is drawn. The tui is a REST client like any other; it uses neither
// store nor gateway.
package tui
