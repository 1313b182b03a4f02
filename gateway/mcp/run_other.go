//go:build !amd64

package mcp

// run skips the plain characters from i on. It returns the offset where it
// stopped, and a word whose highBits are set when it has seen bytes that are
// not ASCII. It may stop early.
func run(b []byte, i int) (end int, seen uint64) { return runWords(b, i) }
