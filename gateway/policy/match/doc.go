// Package match has the matchers of tool names. It is pure.
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
// Indexes of rules and routes, and the errors about invalid matchers, belong to its
// callers.
package match
