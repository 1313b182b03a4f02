package mcp

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// All implementations of the scan for plain characters stop at the same place:
// never after the first other character, and less than one step before it.
func TestRunsStopBeforeWhatEndsThem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := make([]byte, r.IntN(300))
		for i := range b {
			b[i] = byte(' ' + r.IntN(256-' '))
			if b[i] == '"' || b[i] == '\\' {
				b[i] = 'x'
			}
			if r.IntN(3) > 0 {
				b[i] &= 0x7f | byte(r.IntN(2)<<7)
				if b[i] < ' ' || b[i] == '"' || b[i] == '\\' {
					b[i] = 'y'
				}
			}
		}
		first := len(b)
		if len(b) > 0 && r.IntN(4) > 0 {
			first = r.IntN(len(b))
			b[first] = "\"\\\x00\x1f\n\t"[r.IntN(6)]
		}
		from := r.IntN(len(b) + 1)
		if from > first {
			from = first
		}
		for name, pass := range map[string]func([]byte, int) (int, uint64){"run": run, "runWords": runWords} {
			end, seen := pass(b, from)
			if end < from || end > first || end < first-31 {
				t.Fatalf("%s: from %d it stopped at %d, the first that ends it is at %d: %q", name, from, end, first, b)
			}
			high := bytes.ContainsFunc(b[from:end], func(r rune) bool { return r >= 0x80 })
			if got := seen&highBits != 0; got != high {
				t.Fatalf("%s: bytes beyond ASCII: %t, want %t: %q", name, got, high, b[from:end])
			}
		}
	}
}

func BenchmarkRun(b *testing.B) {
	text := []byte(strings.Repeat("plain characters of an answer, ", 4<<10))
	for name, pass := range map[string]func([]byte, int) (int, uint64){"run": run, "runWords": runWords} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				pass(text, 0)
			}
		})
	}
}
