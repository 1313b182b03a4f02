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
//	                           merge.go    one catalog of several upstreams, again after each reading
//	                               │         prefix.go   the visible name
//	                               │         address.go  the visible address of a skill or an app
//	                               │         owners.go   who owns a name; without federation, where its
//	                               │                     route leads
//	                               │         catalog.go  one list of each kind
//	                               │       merge_caller.go  with federation, also the private lists
//	                               │                        of one caller
//	      ┌────────────────────────┴───────────┐
//	 federation                             search   the index of mcp_search
//	   item_check.go  what no SDK rejects
//	   answers, list_changed
//
// The reader reads a list once for all that need it; what nobody needs is not read. It has the
// pauses, the failures, the subscriptions to changes and the bounds. Pins compare what it reads. A
// [Merge] makes one catalog of it, which federation lists to clients and search makes an index of.
// Without federation nobody lists it to clients: there is a merge only for tool search, without
// private lists, and names are the upstreams' own unless the configuration changes them. Apart from
// the file of owners, merging is pure.
//
// One item that does not match the schema of the protocol revision makes official SDKs reject the
// whole list, and with it the items of all other upstreams. So item_check.go has the schemas of the
// items in both protocol generations.
//
// provenance.go stores which upstream returned a URI to a caller in a result, so that a request for
// the URI is routed there although no list contains it. An entry only selects the upstream; it
// grants no access.
package catalog
