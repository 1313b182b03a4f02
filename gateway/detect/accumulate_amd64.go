package detect

import "golang.org/x/sys/cpu"

// wide is whether the processor has the 32-byte instructions of accumulateWide.
var wide = cpu.X86.HasAVX2

// accumulateWide is accumulateEach without looking at bounds, for at least one row.
//
//go:noescape
func accumulateWide(sums *[lanes]float32, w *float32, rows *int32, xs *float32, n int)

// accumulate is accumulateEach, and as fast as the processor can. The result is the same.
func accumulate(sums *[lanes]float32, w []float32, rows []int32, xs []float32) {
	n := len(rows)
	if !wide || n == 0 {
		accumulateEach(sums, w, rows, xs)
		return
	}
	w = w[:len(w):len(w)]
	for _, at := range rows {
		_ = w[at : at+lanes]
	}
	_ = xs[n-1]
	accumulateWide(sums, &w[0], &rows[0], &xs[0], n)
}
