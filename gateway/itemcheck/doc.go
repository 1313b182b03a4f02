// Package itemcheck reports whether a client's SDK can parse a tool, prompt, resource or resource
// template of an upstream. One item that does not match the schema of the protocol revision makes
// official SDKs reject the whole list, and with it the items of all other upstreams.
//
// It has the schemas of the items in both protocol generations. Its callers omit items from lists
// and report them.
package itemcheck
