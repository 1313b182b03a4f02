package detect

import "bytes"

// Feature is a reason for a score: what was found, how much it weighs by itself
// (0 to 1), and how often.
type Feature struct {
	Name   string
	Weight float64
	Count  int
}

// ScoreInjection tells how much text looks like an attempt to give a model
// orders that its user did not give: 0 not at all, 1 beyond doubt. The features
// say why, heaviest first.
func ScoreInjection(text []byte) (score float64, features []Feature) {
	low := bytes.ToLower(text)
	for _, s := range []string{"ignore all previous instructions", "ignore previous instructions", "disregard the above"} {
		if n := bytes.Count(low, []byte(s)); n > 0 {
			features = append(features, Feature{"override", 0.9, n})
		}
	}
	rest := 1.0
	for _, f := range features {
		rest *= 1 - f.Weight
	}
	return 1 - rest, features
}
