package mcp

import "golang.org/x/sys/cpu"

// wide is whether the processor has the 32-byte instructions of runWide.
var wide = cpu.X86.HasAVX2

// runWide passes over the plain characters at the beginning of b up to the first
// that is none, or to less than 32 bytes before the end. It returns how many it
// passed, and not 0 in high when one of them was not ASCII.
//
//go:noescape
func runWide(b []byte) (n int, high uint32)

// run passes over the plain characters from i on, and returns where it stopped
// and what tells by its highBits whether it has seen bytes that are not ASCII.
// It may stop early.
func run(b []byte, i int) (end int, seen uint64) {
	if !wide {
		return runWords(b, i)
	}
	n, high := runWide(b[i:])
	if high != 0 {
		seen = highBits
	}
	return i + n, seen
}
