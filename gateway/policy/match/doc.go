// Package match has the matchers of tool names and URIs, and the canonical form of hosts. It is pure.
//
// # Patterns
//
// Glob compiles and matches shell-style patterns for tool names. It defines tool_glob for
// policy rules and for routes. It is pure.
//
// # Matchers
//
// Toolname implements the matchers of tool names that policy rules and routes
// have in common: tool_name, tool_prefix, tool_glob, tool_regex and tool_name_in. It
// determines which of them a configuration has, and compiles it. It is pure.
//
// # URIs
//
// URIPrefix implements uri_prefix: it compares URIs in a canonical form, and says Unclear of one that
// servers read in different ways, so that its callers can fail closed.
//
// # Hosts
//
// Host is the canonical form of hosts, as the WHATWG URL standard has it; host_in and uri_prefix use it.
//
// Indexes of rules and routes, and the errors about invalid matchers, belong to its
// callers.
package match
