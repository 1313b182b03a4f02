package detect

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
)

// read puts a folded text before the linear model; e.hits are what the lexicon
// found in it.
func (e *examination) read(t []byte) {
	w := e.words.best(t, e.hits)
	if e.observe != nil {
		e.observe(&e.words, t)
	}
	if w.sum <= e.top {
		return
	}
	lo, hi := margin(t, w.from, w.to)
	e.top, e.stretch = w.sum, append(e.stretch[:0], t[lo:hi]...)
	e.from, e.to, e.first = min(w.from, hi)-lo, min(w.to, hi)-lo, lo == 0
}

// maxWordFeatures is how many terms an explanation names.
const maxWordFeatures = 5

// explain returns the features of a score. Each gets the share of the score that
// it has in the log odds, so that together they make it by noisy or.
func (e *examination) explain(c *Calibration, score float64) (features []Feature) {
	var odds []float64
	add := func(name string, value float64, count int) {
		if value > 0 {
			features, odds = append(features, Feature{Name: name, Count: count}), append(odds, value)
		}
	}
	told := float64(0)
	for k := range rules {
		if w := e.strength.best[k]; w > 0 {
			add(rules[k].name, float64(c.Rules)*nats(w), e.strength.count[k])
			told++
		}
	}
	if told == 0 {
		for k := range rules {
			if w := e.strength.aside[k]; w > 0 {
				add(rules[k].name, float64(c.Aside)*nats(w), e.strength.count[k])
				told++
			}
		}
	}
	for _, d := range e.disguises {
		if told > 0 || d.alone {
			add(d.Name, float64(c.Disguises)*nats(d.Weight), d.Count)
		}
	}
	unit := float64(c.Words) * float64(c.Step)
	for _, t := range e.heaviest() {
		add(t.name, unit*t.sum, t.count)
	}
	for _, t := range e.closest() {
		add(t.name, float64(c.Close)*t.sum, t.count)
	}
	if len(features) == 0 {
		add("words: the text as a whole", 1, 1)
	}
	total := 0.0
	for _, v := range odds {
		total += v
	}
	open := math.Log1p(-min(score, 1-1e-9))
	for i := range features {
		features[i].Weight = max(-math.Expm1(open*odds[i]/total), 1e-12)
	}
	slices.SortStableFunc(features, func(a, b Feature) int { return cmp.Compare(b.Weight, a.Weight) })
	return features
}

// heavy is a term of the most suspicious stretch and what it adds.
type heavy struct {
	name  string
	sum   float64
	count int
}

// heaviest returns the terms that weigh most in the most suspicious stretch.
func (e *examination) heaviest() (all []heavy) {
	r := reader{model: e.words.model, known: e.words.known, collect: true}
	window := e.stretch[e.from:e.to]
	e.hits = words.scan(e.hits[:0], window, false)
	r.best(window, e.hits)
	index := make(map[uint32]int)
	for _, t := range r.terms {
		w := r.model.weight(t.Hash)
		if w <= 0 {
			continue
		}
		i, known := index[t.Hash]
		if !known {
			i = len(all)
			index[t.Hash] = i
			all = append(all, heavy{name: "words: " + shown(window[t.from:t.to])})
		}
		all[i].sum += float64(w * int32(t.Value))
		all[i].count++
	}
	byName := make(map[string]int) // kinds of terms over the same words are one feature
	merged := all[:0]
	for _, h := range all {
		if i, known := byName[h.name]; known {
			merged[i].sum += h.sum
			continue
		}
		byName[h.name] = len(merged)
		merged = append(merged, h)
	}
	factor := float64(perToken[min(max(int(r.token), 1), ringTokens-1)])
	for i := range merged {
		merged[i].sum *= factor
	}
	slices.SortStableFunc(merged, func(a, b heavy) int { return cmp.Compare(b.sum, a.sum) })
	return merged[:min(len(merged), maxWordFeatures)]
}

// maxShown bounds the words that an explanation names, in bytes.
const maxShown = 64

// shown returns words as an explanation names them.
func shown(w []byte) string {
	if len(w) > maxShown {
		w = w[:maxShown]
	}
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(w)), " "), "")
}

// Inputs is what the score of a text is made from, for those who fit the model.
type Inputs struct {
	Views                   []View  // the text, and what is decoded from it
	Rules, Aside, Disguises float64 // evidence, in nats
}

// View is one reading of a text: how many tokens, and the terms at them in order.
type View struct {
	Tokens int
	Terms  []Term
	Text   []byte     // folded
	Places [][2]int32 // the bytes of Text that each token covers
}

// noModel stands where the inputs of a model are collected: there may be none yet.
var noModel = new(table)

// InputsOf returns the inputs of the score of text. It allocates for every
// term; ScoreInjection does not.
func InputsOf(text []byte) (in Inputs) {
	e := new(examination)
	e.words.collect, e.words.model = true, noModel
	e.observe = func(r *reader, t []byte) {
		if r.token > 0 {
			in.Views = append(in.Views, View{int(r.token), r.terms, bytes.Clone(t), r.places})
		}
		r.terms, r.places = nil, nil
	}
	e.run(text)
	in.Rules, in.Aside, in.Disguises = e.evidence()
	return in
}

// ReadClosely returns the close reading of the window of v from one token to the
// one before another.
func (v View) ReadClosely(from, to int) []CloseToken {
	a, b := int(v.Places[from][0]), int(v.Places[to-1][1])
	lo, hi := margin(v.Text, a, b)
	var r Reading
	r.Read(v.Text[lo:hi], a-lo, b-lo, lo == 0)
	return r.Tokens
}
