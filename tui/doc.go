// Package tui is the terminal interface of svc: live traces, a trace with its
// spans, statistics, agents, policies, budgets, SLA targets and approvals on one
// screen, with keys and mouse.
//
//	Source ──▶ feed ──batch──▶ Model ◀──keys, mouse, tick── terminal    feed.go, source.go, model.go
//	                             │
//	                             ▼ the visible page: of a tab, or opened over it
//	          traces, trace, stats, policies, slas, approvals, …          screens.go has the tabs
//	                             │
//	          tablePage ─▶ list of rows, fields of the selected one       table.go, list.go, details.go
//	                             │
//	Plane ◀─── loader: requests while the page is visible                 loader.go
//	                             ▼
//	          View: tabs, status, page, keys                              chrome.go, draw.go, text.go
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
