// Package search finds tools by their description (gateway specification,
// tool_search, mode synthesize). It owns the index of the tools of all
// upstreams, and the search tool: its definition, its arguments, its results.
//
//	catalog.Reader ──▶ pins ──▶ catalog.Merge ──▶ the index of a caller's tools (lists.go)
//	                     │        of federation: all lists, the caller's private ones too
//	                     │        without it: tools where their routes lead
//	                     └────▶ definitions that have changed (definitions.go), without federation
//
// The tools to search are always those of a [catalog.Merge]; with and without federation only its
// parameters differ. Catalogs with the same tools share one index.
//
// The caller of [Service.Answer] decides for each result whether it may be shown.
// Routes, rules, audit lines and the processing of a request belong to the
// gateway.
package search
