// Package rest is how commands call the control plane: the flags of the connection,
// lists page by page, values, deletions, and the completion of ids. It knows no
// particular resources.
package rest
