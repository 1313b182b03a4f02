// Package rest is how commands talk to the control plane: the flags of the connection,
// lists page by page, values, deletions, and the completion of ids. Which resources
// there are is the matter of its users.
package rest
