package mcp

import "golang.org/x/sys/cpu"

// wide reports whether the processor has the 32-byte instructions of runWide
// (AVX2).
var wide = cpu.X86.HasAVX2

// runWide skips the plain characters at the beginning of b, up to the first
// other character or to less than 32 bytes before the end. It returns the number
// of skipped bytes, and a nonzero high when one of them was not ASCII.
//
//go:noescape
func runWide(b []byte) (n int, high uint32)

// run skips the plain characters from i on. It returns the offset where it
// stopped, and a word whose highBits are set when it has seen bytes that are not
// ASCII. It may stop early.
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
