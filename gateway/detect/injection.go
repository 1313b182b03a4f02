package detect

import (
	"math"
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
// say why, heaviest first: rules that hold, disguises, the words that a linear
// model found in the most suspicious stretch of the text, and the places there
// that the networks of the close reading answered to. The score is at
// most 1 minus the product of what each of them leaves open (noisy or). It is a
// measure of suspicion, not a proof either way: what it finds and misses is
// measured in docs/detectors.md.
func ScoreInjection(text []byte) (score float64, features []Feature) {
	e := examinations.Get().(*examination)
	defer e.release()
	e.run(text)
	c := &e.words.model.Calibration
	rules, aside, disguises := e.evidence()
	words := c.words(float64(e.top))
	if words < float64(c.Gate) && rules+disguises == 0 {
		return 0, nil
	}
	close := e.readClosely(c.least(c.odds(words, 0, rules, aside, disguises)))
	if score = c.score(c.odds(words, close, rules, aside, disguises)); score == 0 {
		return 0, nil
	}
	return score, e.explain(c, score)
}

// words is what the linear model says of a window with a sum.
func (c *Calibration) words(sum float64) float64 { return float64(c.Bias) + float64(c.Step)*sum }

// odds are the log odds of an attack, given what the linear model and the close
// reading say and the evidence of the rules.
func (c *Calibration) odds(words, close, rules, aside, disguises float64) float64 {
	return float64(c.Words)*words + float64(c.Close)*close + float64(c.Rules)*rules + float64(c.Aside)*aside + float64(c.Disguises)*disguises + float64(c.Offset)
}

// least is what the close reading must say so that log odds that were rest
// without it give a score above 0.
func (c *Calibration) least(rest float64) float64 {
	if c.Close <= 0 {
		return math.Inf(-1)
	}
	floor := float64(c.Floor)
	return (math.Log(floor/(1-floor)) - rest) / float64(c.Close)
}

// score is the score of log odds.
func (c *Calibration) score(odds float64) float64 {
	p, floor := 1/(1+math.Exp(-odds)), float64(c.Floor)
	return max(0, (p-floor)/(1-floor))
}

// maxEvidence bounds what rules add up to, in nats.
const maxEvidence = 6

// evidence adds up the rules that hold and the disguises, as what they leave
// open, in nats.
func (e *examination) evidence() (rules, aside, disguises float64) {
	for k := range e.strength.best {
		if w := e.strength.best[k]; w > 0 {
			rules += nats(w)
		} else if w = e.strength.aside[k]; w > 0 {
			aside = max(aside, nats(w)) // what is told of does not add up
		}
	}
	for _, d := range e.disguises {
		if rules+aside > 0 || d.alone { // an encoding by itself is nothing
			disguises += nats(d.Weight)
		}
	}
	return min(rules, maxEvidence), aside, min(disguises, maxEvidence)
}

// nats is how much of the log odds a weight is worth.
func nats(weight float64) float64 { return -math.Log1p(-weight) }

// examination is the work on one text, with buffers that are used again.
type examination struct {
	folded    folded
	hits      []hit
	strength  strengths
	disguises []disguise
	work      int // bytes of decoded text that may still be looked at
	glued     int // letters of runs that may still be divided into words
	runs      int // letters of runs that may still be looked at
	words     reader
	top       float32                     // the sum of the most suspicious window of all views
	stretch   []byte                      // the text of that window and what stands beside it
	from, to  int                         // the window in it
	first     bool                        // whether its view begins with it
	reading   Reading                     // of the stretch
	answers   [maxClose * Filters]float32 // of one network
	pooled    [Networks][Filters]float32  // the strongest answers, see Pool
	places    [Networks][Filters]int16
	gained    [maxClose]float64
	observe   func(*reader, []byte) // is told of every view, for those who fit the model
}

// disguise is a feature of how a text hides what it says.
type disguise struct {
	Feature
	alone bool // counts without any rule that holds
}

var examinations = sync.Pool{New: func() any { return new(examination) }}

// release gives the buffers back.
func (e *examination) release() {
	if cap(e.folded.text) <= 4*maxKept && cap(e.hits) <= maxKept/8 && cap(e.stretch) <= maxKept {
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
	e.glued, e.runs = gluedWork, runWork
	e.top, e.stretch, e.from, e.to = noWindow, e.stretch[:0], 0, 0
	if e.words.model == nil {
		e.words.model = theTable()
	}
	e.words.known = knownWords()
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
	e.read(f.text)
	var unknown [maxOdd][2]int32 // a copy: those of what is examined below take their place
	odd := unknown[:copy(unknown[:], e.words.odd)]
	turned, turnedBack := 0, 0
	for i := range e.hits {
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
	e.unmask(text, f, odd, depth, turned >= 2, turnedBack >= 2)
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
