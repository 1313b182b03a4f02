// Package toolsearch finds tools by their description (gateway specification,
// tool_search, mode synthesize). It owns the index of the tools of all
// upstreams, the client that lists them and refreshes the index, and the search
// tool: its definition, its arguments, its results.
//
// The caller of [Index.Search] decides for each result whether it may be shown.
// Routes, rules, audit lines and the processing of a request belong to the
// gateway.
package toolsearch
