// Package check has what an administrator asks of a configuration without traffic.
//
//	configuration ──┬── lint*.go        likely mistakes, from the text alone
//	                │     └── nameset*.go   which names a matcher matches, exactly
//	                ├── preflight*.go   what it refers to on this machine; connects, sends nothing
//	                ├── probe*.go       every server is asked what a running gateway would ask
//	                └── engine.go       rules and routes, for messages that are not sent:
//	                      ├── message.go    described ones
//	                      ├── cases.go      test cases
//	                      └── replay*.go    those of an audit log, and the report
//
// # Lint
//
// Each warning has a code, a function in the file of its theme (lint_rules.go, lint_auth.go, …), which
// lint.go names beside the code, and a page docs/lint/CODE.md with its meaning and an example. Lint uses only a [config.Document]: no file, no network, no environment. It determines
// exactly whether a rule applies; if that would take too long, it reports an info.
//
// # Sets of names
//
// A nameSet is a set of tool names as tool matchers define them: names, prefixes, patterns and
// expressions. Whether some sets together contain every name of another set is decided exactly,
// within a bound on the work. A tool name is a text of at least one character without control
// characters, as the gateway accepts it.
//
// # Preflight
//
// Preflight checks the license, keys and certificates, directories, and whether the servers accept
// connections. It changes nothing and sends no data. A finding that prevents the gateway from
// starting is an error; a problem that may resolve itself is a warning. No finding contains a host
// name or content of a file.
//
// # Probe
//
// Probe sends requests over the same transports and with the same credentials as a running gateway,
// and describes the results: what works, what does not work, why, and what to do about it. It
// changes nothing: it pins no tools, claims no names and uses no tokens of rate limits.
//
// # Replay
//
// Replay owns the format of test cases, the report of a replay, and the handling of data that a
// recorded request does not have. It has no side effects: no guardrail is called and no rate-limit
// token is used.
package check
