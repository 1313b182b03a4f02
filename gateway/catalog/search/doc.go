// Package search finds tools by their description (gateway specification,
// tool_search, mode synthesize). It owns the index of the tools of all
// upstreams, and the search tool: its definition, its arguments, its results.
// [catalog.Reader] reads the lists.
//
// The caller of [Index.Search] decides for each result whether it may be shown.
// Routes, rules, audit lines and the processing of a request belong to the
// gateway.
package search
