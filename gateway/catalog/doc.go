// Package catalog merges what several upstreams list (tools, prompts, resources
// and resource templates) into one list of each kind, and decides under which
// name a client sees an item and which upstream owns that name.
//
// It owns the naming (prefixes, renames, allow and deny lists), the owners of
// names, uris and templates, the order of merged lists, and the cursors of their
// pages. It is pure but for the file of owners: reading the lists of upstreams,
// deciding what a caller may see, and forwarding calls belong to its users.
package catalog
