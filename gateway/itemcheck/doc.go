// Package itemcheck reports whether a client's SDK can read a tool, prompt, resource
// or resource template that an upstream lists. One item that does not match the
// schema of the protocol revision makes official SDKs reject the whole list, and
// with it the items of all other upstreams.
//
// It owns the schemas of the items in both protocol generations. Which items are
// left out of which list, and the report of it, belong to its users.
package itemcheck
