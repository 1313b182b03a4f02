//go:build !amd64

package detect

// accumulate is accumulateEach, and as fast as the processor can.
func accumulate(sums *[lanes]float32, w []float32, rows []int32, xs []float32) {
	accumulateEach(sums, w, rows, xs)
}
