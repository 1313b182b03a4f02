// Package rest is how commands call the control plane: its address and key by context, lists,
// values, deletions, completion of ids.
//
// # Contexts
//
// Contexts stores the control planes that a person works with, by name, in
// $XDG_CONFIG_HOME/svc/contexts.yaml: the URL and the API key of each. The package has the
// file, its checks and the comparison of URLs. cli/rest decides which context is used and
// when its key is sent.
//
// # Rest
//
// Rest is how commands call the control plane: the flags of the connection,
// lists page by page, values, deletions, and the completion of ids. It knows no
// particular resources.
package rest
