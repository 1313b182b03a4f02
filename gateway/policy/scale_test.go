package policy

import (
	"testing"
	"time"
)

// decideTimes returns the minimum time per decision for each list of queries.
// The lists are measured alternately, so that other load on the machine affects
// both alike.
func decideTimes(sets []*Set, queries [][]Request, rounds int) []time.Duration {
	const repeat = 50
	best := make([]time.Duration, len(sets))
	for range rounds {
		for k, s := range sets {
			start := time.Now()
			for range repeat {
				for i := range queries[k] {
					s.Decide(&queries[k][i])
				}
			}
			took := time.Since(start) / time.Duration(repeat*len(queries[k])) // whole nanoseconds
			if best[k] == 0 || took < best[k] {
				best[k] = took
			}
		}
	}
	return best
}

// A decision among 1,000 rules costs the same as one among 50. The benchmark
// measures the figure; this test has a wide margin for busy machines.
func TestDecideCostDoesNotGrowWithRules(t *testing.T) {
	best := decideTimes(
		[]*Set{mustCompile(t, mixedRules(50)), mustCompile(t, mixedRules(1000))},
		[][]Request{mixedQueries(50), mixedQueries(1000)}, 100)
	ratio := float64(best[1]) / float64(best[0])
	t.Logf("50 rules: %v, 1,000 rules: %v, ratio %.2f", best[0], best[1], ratio)
	if ratio > 1.6 {
		t.Errorf("1,000 rules take %.2f times as long as 50", ratio)
	}
}
