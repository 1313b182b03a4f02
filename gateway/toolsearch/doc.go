// Package toolsearch finds tools by what they do (gateway specification,
// tool_search, mode synthesize). It owns the index of the tools of all
// upstreams, the client that lists them and keeps the index fresh, and the
// texts of the search tool: its definition, its arguments, its results.
//
// Who may see a tool is decided by the caller of [Index.Search], which is asked
// for each result. Routes, rules, audit lines and the path of a request belong
// to the gateway.
package toolsearch
