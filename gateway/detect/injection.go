package detect

import (
	"cmp"
	"slices"
	"sync"
)

// Feature is a reason for a score: what was found, how much it weighs by itself
// (0 to 1), and how often.
type Feature struct {
	Name   string
	Weight float64
	Count  int
}

// ScoreInjection tells how much text looks like an attempt to give a model
// orders that its user did not give: 0 not at all, 1 beyond doubt. The features
// say why, heaviest first; the score is 1 minus the product of what each of them
// leaves open (noisy or). It is a measure of suspicion, not a proof either way:
// what it finds and misses is measured in docs/detectors.md.
func ScoreInjection(text []byte) (score float64, features []Feature) {
	e := examinations.Get().(*examination)
	defer e.release()
	e.run(text)
	open, aside := 1.0, 0.0
	for k := range rules {
		w := e.strength.best[k]
		if w > 0 {
			open *= 1 - w
		} else if w = e.strength.aside[k]; w > 0 {
			aside = max(aside, w) // what is told of does not add up
		} else {
			continue
		}
		features = append(features, Feature{rules[k].name, w, e.strength.count[k]})
	}
	open *= 1 - aside
	for _, d := range e.disguises {
		w := d.Weight
		if open == 1 && !d.alone {
			continue // an encoding by itself is nothing
		}
		open *= 1 - w
		features = append(features, d.Feature)
	}
	slices.SortStableFunc(features, func(a, b Feature) int { return cmp.Compare(b.Weight, a.Weight) })
	return 1 - open, features
}

// examination is the work on one text, with buffers that are used again.
type examination struct {
	folded    folded
	hits      []hit
	strength  strengths
	disguises []disguise
	work      int // bytes of decoded text that may still be looked at
}

// disguise is a feature of how a text hides what it says.
type disguise struct {
	Feature
	alone bool // counts without any rule that holds
}

var examinations = sync.Pool{New: func() any { return new(examination) }}

// release gives the buffers back.
func (e *examination) release() {
	if cap(e.folded.text) <= 4*maxKept && cap(e.hits) <= maxKept/8 {
		examinations.Put(e)
	}
}

// Bounds of what is decoded: depth of encodings inside of encodings, and bytes
// of decoded text, together no more than four texts and a little.
const (
	maxDepth   = 3
	workFactor = 4
	workExtra  = 16 << 10
)

// run examines a text and what is encoded in it.
func (e *examination) run(text []byte) {
	e.strength, e.disguises = strengths{}, e.disguises[:0]
	e.work = workFactor*len(text) + workExtra
	e.level(text, 0, 1)
}

// level examines one text; decoded ones come with depth above 0.
func (e *examination) level(text []byte, depth int, share float64) {
	f := &e.folded
	if depth > 0 {
		f = &folded{}
	}
	f.foldText(text)
	e.hits = words.scan(e.hits[:0], f.text, false)
	e.strength.judge(e.hits, share)
	var shifted concept
	turned, turnedBack := 0, 0
	for i := range e.hits {
		shifted |= e.hits[i].means
		if e.hits[i].means&rotated != 0 {
			turned++
		}
		if e.hits[i].means&reversed != 0 {
			turnedBack++
		}
	}
	if depth >= maxDepth {
		return
	}
	if f.alike > 0 {
		e.disguise("disguise: letters of other scripts", 0.3, f.alike, false)
	}
	if f.fancy >= 6 {
		e.disguise("disguise: letters in other forms", 0.25, f.fancy, false)
	}
	if f.invisible >= 3 {
		e.disguise("disguise: invisible characters in words", 0.3, f.invisible, false)
	}
	if len(f.tags) >= 4 {
		e.disguise("disguise: invisible tag characters", 0.75, len(f.tags), len(f.tags) > 12)
		e.nested("", 0, f.tags, depth)
	}
	e.unmask(text, f, depth, turned >= 2, turnedBack >= 2)
}

// disguise records a feature once.
func (e *examination) disguise(name string, weight float64, count int, alone bool) {
	for i := range e.disguises {
		if e.disguises[i].Name == name {
			e.disguises[i].Count += count
			return
		}
	}
	e.disguises = append(e.disguises, disguise{Feature{name, weight, count}, alone})
}

// nested examines a decoded text. The encoding becomes a feature when the text
// holds something that was not seen without it.
func (e *examination) nested(name string, weight float64, text []byte, depth int) {
	if len(text) == 0 || len(text) > e.work {
		return
	}
	e.work -= len(text)
	before := e.strength.best
	e.level(slices.Clone(text), depth+1, 1)
	if name == "" {
		return
	}
	for k := range before {
		if e.strength.best[k] > before[k] {
			e.disguise(name, weight, 1, false)
			return
		}
	}
}
