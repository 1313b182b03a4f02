package detect

import (
	"math/rand/v2"
	"testing"
)

// TestAccumulateIsTheSameEverywhere holds that a score does not depend on what the
// processor can do.
func TestAccumulateIsTheSameEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := make([]float32, 40*lanes)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	for n := range 20 {
		var got, want [lanes]float32
		for i := range got {
			got[i] = float32(r.NormFloat64())
		}
		want = got
		rows, xs := make([]int32, n), make([]float32, n)
		for i := range rows {
			rows[i], xs[i] = int32(r.IntN(len(w)-lanes+1)), float32(r.NormFloat64())
		}
		accumulate(&got, w, rows, xs)
		accumulateEach(&want, w, rows, xs)
		if got != want {
			t.Errorf("%d rows: %v, want %v", n, got, want)
		}
	}
}

// TestAccumulateLooksAtBounds holds for what lies outside of the weights.
func TestAccumulateLooksAtBounds(t *testing.T) {
	for _, c := range []struct {
		rows []int32
		xs   int
	}{{[]int32{0, 65}, 2}, {[]int32{-1}, 1}, {[]int32{0, 0}, 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v, %d numbers: nothing said", c.rows, c.xs)
				}
			}()
			accumulate(new([lanes]float32), make([]float32, 2*lanes), c.rows, make([]float32, c.xs))
		}()
	}
}
