// Package match has the matchers of tool names and URIs, and the canonical form of hosts. It is pure.
//
//   - Pattern is a shell-style pattern of tool names (tool_glob).
//   - Matcher is one of the matchers of tool names that rules, routes, views and labels have in common:
//     tool_name, tool_prefix, tool_glob, tool_regex and tool_name_in. Written is its written form.
//   - URIPrefix is uri_prefix: it compares URIs in a canonical form, and says Unclear of one that servers
//     read in different ways, so that its callers can fail closed.
//   - Host is the canonical form of hosts, as the WHATWG URL standard has it; host_in and uri_prefix use it.
//
// Indexes of rules and routes, and the errors about invalid matchers, belong to its callers.
package match
