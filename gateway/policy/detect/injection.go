package detect

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"
	"unicode/utf8"

	"svc/gateway/mcp"
)

// Feature is a reason for a score: a rule or a disguise, with its weight (0 to 1) and the
// number of matches.
type Feature struct {
	Name   string
	Weight float64
	Count  int
}

// ScoreInjection returns the score of a text for prompt injection: 0 for no evidence, 1
// for certainty (decision DET6). The features are the reasons, heaviest first: the rules
// that match in the most suspicious window of the text, and its disguises. The score is 1
// minus the product of the complements of the weights (noisy or). It matches known
// phrasing, not intentions: docs/internal/detectors.md has the figures.
func ScoreInjection(text []byte) (score float64, features []Feature) {
	e := examinations.Get().(*examination)
	e.run(text)
	if e.best.sum > 0 {
		score, features = e.best.explain(e.rules)
	}
	e.release()
	return score, features
}

// maxFamilies bounds the families of rules and disguises.
const maxFamilies = 16

// Families of disguises follow those of the rules.
const (
	familyEncoding = maxFamilies - 1 - iota
	familyLetters
)

// windowUnits is the distance within which matches of rules are added up, in half words,
// so that an attack in a long text has the same score as the attack alone.
const windowUnits = 160

// holding is a rule that matches at a position, or a disguise.
type holding struct {
	at    int32
	rule  int16   // -1 for a disguise
	count int16   // matches of the same rule in the window
	nats  float64 // 0 for none
	name  string
}

// evidence is the strongest rule of each family in a window.
type evidence struct {
	of  [maxFamilies]holding
	sum float64
}

// nats sums the weights of the families that match near a position.
func (v *evidence) nats(at int32) (sum float64) {
	for i := range v.of {
		if h := &v.of[i]; h.nats > 0 && at-h.at > windowUnits {
			*h = holding{}
		} else {
			sum += h.nats
		}
	}
	return sum
}

// maxNats bounds the evidence, so that no score is exactly 1.
const maxNats = 6

// explain returns the score of the evidence and its features.
func (v *evidence) explain(b *ruleBook) (float64, []Feature) {
	var features []Feature
	for i := range v.of {
		if h := &v.of[i]; h.nats > 0 {
			name := h.name
			if h.rule >= 0 {
				name = b.rules[h.rule].name
			}
			features = append(features, Feature{name, -math.Expm1(-h.nats), int(h.count)})
		}
	}
	slices.SortFunc(features, func(x, y Feature) int {
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), cmp.Compare(x.Name, y.Name))
	})
	return -math.Expm1(-min(v.sum, maxNats)), features
}

// examination is the state of scoring one text, with reusable buffers.
type examination struct {
	rules    *ruleBook
	unpacked [2][]byte
	folded   folded
	scan     scan
	best     evidence
	work     int // bytes of decoded text that may still be examined
}

var examinations = sync.Pool{New: func() any { return &examination{rules: theRules()} }}

// release returns the buffers to the pool.
func (e *examination) release() {
	if cap(e.folded.text) <= 4*maxKept && cap(e.scan.hits) <= maxKept/8 && cap(e.scan.long) <= maxKept/8 && cap(e.unpacked[0])+cap(e.unpacked[1]) <= 4*maxKept {
		e.scan.text = nil
		examinations.Put(e)
	}
}

// Bounds of decoding: nested encodings, and bytes of decoded text.
const (
	maxDepth   = 3
	workFactor = 2
	workExtra  = 16 << 10
)

// run examines a text and the texts encoded in it.
func (e *examination) run(text []byte) {
	e.best, e.work = evidence{}, workFactor*len(text)+workExtra
	e.level(text, 0, "")
}

// level examines one text; decoded texts come with a depth above 0 and the name of their
// disguise.
func (e *examination) level(text []byte, depth int, disguise string) {
	text = leaves(&e.unpacked, text)
	f := &e.folded
	f.tags, f.invisible, f.alike = f.tags[:0], 0, 0
	plain := text
	if !ascii(text) {
		f.fold(text)
		plain = f.text
	}
	e.scan = scan{lex: theLexicon(), text: plain, hits: e.scan.hits[:0], long: e.scan.long[:0]}
	e.scan.run()
	e.judge(disguise)
	if depth == maxDepth || len(e.scan.long) == 0 && !e.scan.escaped() && len(f.tags) < minTags {
		return
	}
	for _, d := range e.encoded(plain) { // the buffers of this level are reused for them
		if len(d.text) <= e.work {
			e.work -= len(d.text)
			e.level(d.text, depth+1, d.name)
		}
	}
}

// ascii reports a text without characters beyond ASCII.
func ascii(text []byte) bool {
	for len(text) >= 8 {
		if binary.LittleEndian.Uint64(text)&0x8080808080808080 != 0 {
			return false
		}
		text = text[8:]
	}
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Numbers of invisible tag characters: a few may be flag emoji, and many are evidence whatever
// they spell.
const (
	minTags   = 6
	maxHonest = 16
)

// disguised is a text that was encoded.
type disguised struct {
	name string
	text []byte
}

// encoded returns the texts that are encoded in the text scanned last.
func (e *examination) encoded(text []byte) (all []disguised) {
	if tags := e.folded.tags; len(tags) >= minTags {
		if len(tags) > maxHonest {
			e.best.add(familyEncoding, holding{rule: -1, count: 1, nats: natsTags, name: nameTags})
		}
		all = append(all, disguised{nameTags, slices.Clone(tags)})
	}
	if e.scan.escaped() {
		if plain := unescapeLines(text); len(plain) > 0 {
			all = append(all, disguised{"disguise: escaped characters", plain})
		}
	}
	if len(e.scan.long) > 0 {
		runs(text, e.scan.long, func(name string, plain []byte) { all = append(all, disguised{name, plain}) })
	}
	return all
}

// Weights of disguises with a match behind them, in nats.
const (
	natsTags     = 2.5
	natsEncoding = 0.8
	natsLetters  = 0.5
	nameTags     = "disguise: invisible tag characters"
)

// judge evaluates the rules on the phrases that were found, and keeps the most suspicious window.
func (e *examination) judge(disguise string) {
	var v evidence
	seen := e.best.sum
	hits, b := e.scan.hits, e.rules
	for i := range hits {
		h := &hits[i]
		if h.means&b.anchors == 0 {
			continue
		}
		around, talk, examples := look(hits, i)
		share := toldShare(h, talk, examples)
		for m := h.means & b.anchors; m != 0; m &= m - 1 {
			for _, k := range b.by[bits.TrailingZeros64(uint64(m))] {
				r := &b.rules[k]
				if !r.holds(&around) {
					continue
				}
				nats := r.nats
				if !r.plain {
					nats *= share
				}
				v.add(r.family, holding{at: h.at, rule: k, count: 1, nats: nats})
				e.keep(&v, h.at, disguise, seen)
			}
		}
	}
}

// add replaces the match of a rule's family in the window if the new one has more weight.
func (v *evidence) add(family int, h holding) {
	old := &v.of[family]
	switch {
	case old.nats == 0 || h.at-old.at > windowUnits || old.nats < h.nats:
		*old = h
	case old.rule == h.rule && old.nats == h.nats:
		old.at = h.at
		old.count = min(old.count+1, math.MaxInt16-1)
	}
	v.sum = v.nats(h.at)
}

// keep stores the window that ends at a position if it is the most suspicious one so far. seen is
// the evidence found without decoding; a disguise counts only if the decoded text has more.
func (e *examination) keep(v *evidence, at int32, disguise string, seen float64) {
	encoding, letters := 0.0, 0.0
	if disguise == nameTags {
		encoding = natsTags
	} else if disguise != "" && v.sum > seen {
		encoding = natsEncoding
	}
	if e.folded.invisible > 2 || e.folded.alike > 1 {
		letters = natsLetters
	}
	if v.sum+encoding+letters <= e.best.sum {
		return
	}
	e.best = *v
	if encoding > 0 {
		e.best.add(familyEncoding, holding{at, -1, 1, encoding, disguise})
	}
	if letters > 0 {
		e.best.add(familyLetters, holding{at, -1, 1, letters, "disguise: characters of other scripts, or invisible ones"})
	}
}

// maxScored bounds the texts of a message that are scored, in bytes. A message with more has the highest score.
const maxScored = 4 << 20

// ScoreTexts returns the highest score of the texts of a message in JSON; 0 for none.
func ScoreTexts(message []byte) (highest float64) {
	scored := 0
	for texts := mcp.TextsIn(message, mcp.Span{End: len(message)}); ; {
		text, ok := texts.Next()
		if !ok {
			return highest
		}
		if text.Kind == mcp.TextNumber {
			continue
		}
		value := mcp.TextValue(text.At.Of(message))
		if scored += len(value); scored > maxScored {
			return 1
		}
		score, _ := ScoreInjection(value)
		highest = max(highest, score)
	}
}
