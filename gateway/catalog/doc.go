// Package catalog merges the lists of several upstreams (tools, prompts, resources and resource
// templates) into one list of each kind, and decides under which name a client sees an item and
// which upstream owns that name.
//
// It contains the naming (prefixes, renames, allow and deny lists), the owners of names, uris and
// templates, the order of merged lists, and the cursors of their pages. Apart from the file of
// owners it is pure: its callers read the lists of upstreams, decide which items a caller may
// see, and forward calls.
package catalog
