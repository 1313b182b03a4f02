// Package catalog has what upstreams offer: tools, prompts, resources and resource templates.
//
//	the time is over (refresh_interval, ttlMs)
//	list_changed, or an unknown name is called     a caller requests a list
//	a call reaches an upstream that was down       that is private
//	               │                                       │
//	           reader_feed.go   pauses             reader_caller.go   few at once, counted
//	               │                                       │              in body_bytes
//	               └───────────────┬───────────────────────┘
//	                           lister.go   all pages of one upstream, in its generation
//	                               │
//	                             pins      what was listed, and what of it is approved
//	                               │
//	      ┌────────────────────────┴───────────┐
//	 with federation                       without: each list has its own routes
//	      │                                    │
//	 item_check.go  what no SDK rejects        │
//	 prefix.go      the visible name       prefix.go   the visible name
//	 owners.go      who owns a name            │
//	 catalog.go     one list of each kind      │
//	 federation     answers, list_changed      │
//	      └───────────────┬────────────────────┘
//	                   search   the index of mcp_search
//
// The reader reads a list once for all that need it; what nobody needs is not read. It has the
// pauses, the failures, the subscriptions to changes and the bounds. The others have what they
// make of a list: federation merges, pins compare, search indexes. Apart from the file of owners,
// merging is pure.
//
// One item that does not match the schema of the protocol revision makes official SDKs reject the
// whole list, and with it the items of all other upstreams. So item_check.go has the schemas of the
// items in both protocol generations.
//
// provenance.go stores which upstream returned a URI to a caller in a result, so that a request for
// the URI is routed there although no list contains it. An entry only selects the upstream; it
// grants no access.
package catalog
