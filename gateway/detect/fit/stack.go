package main

import (
	"cmp"
	"math"
	"slices"
)

// graded is a text whose most suspicious window was summed up by a model that
// had not seen its author.
type graded struct {
	*sample
	words float64 // with the bias
	close float64 // what networks say that had not seen its author either
}

// stack is how the sum of the words and the evidence of the rules become log
// odds.
type stack struct {
	words, close, rules, aside, disguises, offset float64
}

func (s stack) odds(g graded) float64 {
	return s.words*g.words + s.close*g.close + s.rules*g.in.Rules + s.aside*g.in.Aside + s.disguises*g.in.Disguises + s.offset
}

// ruleShare is how much of what the rules seem to say is believed: they were made
// with the development corpus, which is one of those that they are judged by.
const ruleShare = 0.5

// fitStack fits a stack to graded texts. No evidence of an attack may count
// against one.
func fitStack(all []graded) stack {
	samples := make([]*sample, len(all))
	for i := range all {
		samples[i] = all[i].sample
	}
	weights := balance(samples)
	l := &linear{weights: make([]float64, 5)}
	var examples []example
	for i, g := range all {
		x := vector{[]int32{0, 1, 2, 3, 4}, []float32{float32(g.words), float32(g.close), float32(g.in.Rules), float32(g.in.Aside), float32(g.in.Disguises)}}
		examples = append(examples, example{x: x, label: float64(g.Label), weight: weights[i]})
	}
	l.minimise(examples, settings{lambda: 1e-4, steps: 200})
	at := func(k int) float64 { return math.Max(l.weights[k], 0) }
	return stack{at(0), at(1), at(2) * ruleShare, at(3) * ruleShare, at(4), l.bias}
}

// cut returns the log odds that a share of the honest texts exceeds at most, the
// mean over authors of each one's share.
func (s stack) cut(all []graded, share float64) float64 {
	type row struct{ odds, weight float64 }
	texts := make(map[string]float64)
	for _, g := range all {
		if g.Label == 0 {
			texts[g.author]++
		}
	}
	var honest []row
	for _, g := range all {
		if g.Label == 0 {
			honest = append(honest, row{s.odds(g), 1 / texts[g.author] / float64(len(texts))})
		}
	}
	slices.SortFunc(honest, func(a, b row) int { return cmp.Compare(b.odds, a.odds) })
	over := 0.0
	for _, r := range honest {
		if over += r.weight; over > share+1e-9 {
			return r.odds + 1e-6
		}
	}
	return 0
}

// gate returns the sum of the words that all but a share of the attacks above a
// cut exceed.
func (s stack) gate(all []graded, cut, share float64) float64 {
	var sums []float64
	for _, g := range all {
		if g.Label == 1 && s.odds(g) >= cut {
			sums = append(sums, g.words)
		}
	}
	if len(sums) == 0 {
		return 0
	}
	slices.Sort(sums)
	return sums[int(share*float64(len(sums)))]
}

// rates returns how many attacks lie above a cut, and how many honest texts.
func (s stack) rates(all []graded, cut float64) (recall, wrong float64) {
	var found, attacks, flagged, honest float64
	for _, g := range all {
		over := 0.0
		if s.odds(g) >= cut {
			over = 1
		}
		if g.Label == 1 {
			attacks, found = attacks+1, found+over
		} else {
			honest, flagged = honest+1, flagged+over
		}
	}
	return found / math.Max(attacks, 1), flagged / math.Max(honest, 1)
}
