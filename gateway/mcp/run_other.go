//go:build !amd64

package mcp

// run passes over the plain characters from i on, and returns where it stopped
// and what tells by its highBits whether it has seen bytes that are not ASCII.
// It may stop early.
func run(b []byte, i int) (end int, seen uint64) { return runWords(b, i) }
