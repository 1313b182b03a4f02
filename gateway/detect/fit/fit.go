package main

import (
	"maps"
	"slices"
	"sync"

	"svc/gateway/detect"
	"svc/gateway/detect/measure"
)

// sample is a text of a corpus with what its score is made from.
type sample struct {
	measure.Injection
	author string
	in     detect.Inputs
}

// vector is a window of a text: terms by their number, and their values.
type vector struct {
	ids    []int32
	values []float32
}

// dictionary numbers the terms that the model may weigh.
type dictionary map[uint32]int32

// minTexts is in how many texts a term must stand to be one of the model.
const minTexts = 3

// newDictionary collects the terms of samples.
func newDictionary(samples []*sample, keep func(detect.Term) bool) dictionary {
	texts := make(map[uint32]int)
	for _, s := range samples {
		seen := make(map[uint32]bool)
		for _, v := range s.in.Views {
			for _, t := range v.Terms {
				if keep(t) && !seen[t.Hash] {
					seen[t.Hash] = true
					texts[t.Hash]++
				}
			}
		}
	}
	var hashes []uint32
	for h, n := range texts {
		if n >= minTexts {
			hashes = append(hashes, h)
		}
	}
	slices.Sort(hashes)
	d := make(dictionary, len(hashes))
	for i, h := range hashes {
		d[h] = int32(i)
	}
	return d
}

// vector makes a window of a view into a vector.
func (d dictionary) vector(v detect.View, from, to int) vector {
	sum := make(map[int32]float32)
	factor := float32(detect.WindowFactor(to - from))
	i, _ := slices.BinarySearchFunc(v.Terms, int32(from), func(t detect.Term, at int32) int { return int(t.Token - at) })
	for ; i < len(v.Terms) && int(v.Terms[i].Token) < to; i++ {
		if id, known := d[v.Terms[i].Hash]; known {
			sum[id] += float32(v.Terms[i].Value)
		}
	}
	x := vector{ids: make([]int32, 0, len(sum))}
	for id := range sum {
		x.ids = append(x.ids, id)
	}
	slices.Sort(x.ids)
	for _, id := range x.ids {
		x.values = append(x.values, sum[id]*factor)
	}
	return x
}

// linear is a fitted model: a weight for every term of a dictionary.
type linear struct {
	terms   dictionary
	weights []float64
	bias    float64
}

// best returns the window of a text with the highest sum, without the bias, and
// where it is.
func (l *linear) best(in detect.Inputs) (sum float64, view, from, to int) {
	sum = -1 << 20
	for k, v := range in.Views {
		before := make([]float64, v.Tokens+1)
		i := 0
		for n := range v.Tokens {
			total := before[n]
			for ; i < len(v.Terms) && int(v.Terms[i].Token) == n; i++ {
				if id, known := l.terms[v.Terms[i].Hash]; known {
					total += float64(l.weights[id] * float64(v.Terms[i].Value))
				}
			}
			before[n+1] = total
		}
		detect.Windows(v.Tokens, func(a, b int) {
			if s := (before[b] - before[a]) * detect.WindowFactor(b-a); s > sum {
				sum, view, from, to = s, k, a, b
			}
		})
	}
	return sum, view, from, to
}

// settings of a fit.
type settings struct {
	lambda float64 // of the L2 penalty, per unit of weight of the samples
	rounds int     // how often windows are chosen anew
	steps  int     // of the minimiser in each round
}

var usual = settings{lambda: 0.0005, rounds: 4, steps: 60}

// train fits a model to samples, in parts. Which window of an attack holds it is not
// known: the first round takes the whole text or its first window, later ones
// the most suspicious window under the model so far. Of honest texts every
// window that was ever the most suspicious one is kept.
func train(samples []*sample, s settings) *linear {
	both := &linear{terms: make(dictionary)}
	for _, p := range parts {
		l := trainPart(samples, s, p.keep)
		for _, h := range slices.Sorted(maps.Keys(l.terms)) {
			both.terms[h] = int32(len(both.weights))
			both.weights = append(both.weights, p.share*l.weights[l.terms[h]])
		}
		both.bias += p.share * l.bias
	}
	return both
}

// parts are fitted apart and added up. Fitted together, words that only this
// author uses would keep the meanings from being learned.
var parts = []struct {
	share float64
	keep  func(detect.Term) bool
}{
	{0.6, func(t detect.Term) bool { return t.Meaning }},
	{0.4, func(t detect.Term) bool { return !t.Meaning }},
}

// trainPart fits the terms that are kept.
func trainPart(samples []*sample, s settings, keep func(detect.Term) bool) *linear {
	l := &linear{terms: newDictionary(samples, keep)}
	l.weights = make([]float64, len(l.terms))
	var honest []example
	weights := balance(samples)
	seen := make(map[[4]int]bool)
	for round := range s.rounds {
		examples := slices.Clone(honest)
		picked := make([]example, len(samples))
		again := make([]bool, len(samples))
		each(len(samples), func(i int) {
			x := samples[i]
			if len(x.in.Views) == 0 {
				again[i] = true
				return
			}
			var view, from, to int
			if round == 0 {
				to = min(x.in.Views[0].Tokens, 48)
			} else {
				_, view, from, to = l.best(x.in)
			}
			key := [4]int{i, view, from, to}
			if x.Label == 0 && seen[key] {
				again[i] = true
				return
			}
			picked[i] = example{l.terms.vector(x.in.Views[view], from, to), float64(x.Label), weights[i], key}
		})
		for i, x := range samples {
			switch {
			case again[i]:
			case x.Label == 0:
				honest = append(honest, picked[i])
				seen[picked[i].key] = true
				examples = append(examples, picked[i])
			default:
				examples = append(examples, picked[i])
			}
		}
		l.minimise(examples, s)
	}
	return l
}

// ordinaryWeight is how many authors' honest texts the ordinary ones count for.
// Of what passes a gateway they are nearly all; most honest texts of the
// authors are near misses.
const ordinaryWeight = 6

// balance gives every author and both labels the same weight in all, a text of
// a family that has many a little less than others.
func balance(samples []*sample) []float64 {
	type group struct {
		author string
		label  int
		lang   bool // whether it is English
	}
	total := make(map[group]float64)
	for _, s := range samples {
		total[group{s.author, s.Label, s.Lang == "en"}]++
	}
	w := make([]float64, len(samples))
	for i, s := range samples {
		g := group{s.author, s.Label, s.Lang == "en"}
		both := total[g] + total[group{s.author, s.Label, !g.lang}]
		share := total[g] / both
		if other := total[group{s.author, 1 - s.Label, g.lang}]; other > 0 { // what an attack's language is says nothing
			share = (share + other/(other+total[group{s.author, 1 - s.Label, !g.lang}])) / 2
		}
		w[i] = share / total[g]
		switch s.author {
		case generated:
			w[i] /= 2
		case ordinary:
			w[i] *= ordinaryWeight
		}
	}
	return w
}

// each runs work for 0 to n-1 on two processors.
func each(n int, work func(i int)) {
	var wg sync.WaitGroup
	const workers = 2
	for k := range workers {
		wg.Go(func() {
			for i := k; i < n; i += workers {
				work(i)
			}
		})
	}
	wg.Wait()
}
