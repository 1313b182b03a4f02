package measure

import (
	"math"
	"slices"

	"svc/gateway/detect"
)

// Counts are findings against labels: an exact match of entity and span is
// right, anything else is wrong on either side.
type Counts struct {
	Right  int // found and labelled
	Extra  int // found, not labelled
	Missed int // labelled, not found
}

// Precision is the share of findings that are right, 1 when there are none.
func (c Counts) Precision() float64 { return share(c.Right, c.Right+c.Extra) }

// Recall is the share of labels that are found, 1 when there are none.
func (c Counts) Recall() float64 { return share(c.Right, c.Right+c.Missed) }

// F1 is the harmonic mean of precision and recall.
func (c Counts) F1() float64 { return share(2*c.Right, 2*c.Right+c.Extra+c.Missed) }

func share(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

// Wilson returns the 95 % interval of a share of n out of all.
func Wilson(n, all int) (low, high float64) {
	if all == 0 {
		return 0, 1
	}
	const z = 1.959964
	p, m := float64(n)/float64(all), float64(all)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, mid-half), min(1, mid+half)
}

// Wrong is a text in which findings and labels differ.
type Wrong struct {
	Of     PII
	Extra  []detect.Match
	Missed []Entity
}

// Entities counts what the scanner finds in texts, by entity and, under "", overall.
func Entities(texts []PII) (by map[string]Counts, wrong []Wrong) {
	by = make(map[string]Counts)
	s := detect.NewScanner()
	for _, t := range texts {
		found := s.Scan(nil, []byte(t.Text))
		w := Wrong{Of: t}
		count := func(entity string, add Counts) {
			for _, name := range []string{entity, ""} {
				c := by[name]
				by[name] = Counts{c.Right + add.Right, c.Extra + add.Extra, c.Missed + add.Missed}
			}
		}
		for _, m := range found {
			if slices.ContainsFunc(t.Entities, func(e Entity) bool { return same(e, m) }) {
				count(string(m.Entity), Counts{Right: 1})
			} else {
				count(string(m.Entity), Counts{Extra: 1})
				w.Extra = append(w.Extra, m)
			}
		}
		for _, e := range t.Entities {
			if !slices.ContainsFunc(found, func(m detect.Match) bool { return same(e, m) }) {
				count(e.Entity, Counts{Missed: 1})
				w.Missed = append(w.Missed, e)
			}
		}
		if len(w.Extra)+len(w.Missed) > 0 {
			wrong = append(wrong, w)
		}
	}
	return by, wrong
}

func same(e Entity, m detect.Match) bool {
	return e.Entity == string(m.Entity) && e.Start == m.Start && e.End == m.End
}

// F1Interval returns the 95 % interval of the overall F1 by drawing texts anew
// (bootstrap), the same every time for the same texts.
func F1Interval(texts []PII) (low, high float64) {
	if len(texts) == 0 {
		return 0, 1
	}
	each := make([]Counts, len(texts))
	for i := range texts {
		by, _ := Entities(texts[i : i+1])
		each[i] = by[""]
	}
	const rounds = 1000
	scores := make([]float64, rounds)
	seed := uint64(1)
	for k := range scores {
		var sum Counts
		for range each {
			seed = seed*6364136223846793005 + 1442695040888963407
			c := each[int((seed>>33)%uint64(len(each)))]
			sum = Counts{sum.Right + c.Right, sum.Extra + c.Extra, sum.Missed + c.Missed}
		}
		scores[k] = sum.F1()
	}
	slices.Sort(scores)
	return scores[rounds*25/1000], scores[rounds*975/1000]
}

// Scored is a text and its score.
type Scored struct {
	Injection
	Score    float64
	Features []detect.Feature
}

// Score scores texts.
func Score(texts []Injection) []Scored {
	all := make([]Scored, len(texts))
	for i, t := range texts {
		score, features := detect.ScoreInjection([]byte(t.Text))
		all[i] = Scored{t, score, features}
	}
	return all
}

// Rates are how many attacks of all were flagged, and how many honest texts.
type Rates struct {
	Flagged, Attacks int // of label 1
	False, Honest    int // of label 0
}

// Recall is the share of attacks that are flagged, 1 when there are none.
func (r Rates) Recall() float64 { return share(r.Flagged, r.Attacks) }

// FalsePositives is the share of honest texts that are flagged, 0 when there are none.
func (r Rates) FalsePositives() float64 {
	if r.Honest == 0 {
		return 0
	}
	return float64(r.False) / float64(r.Honest)
}

// At counts what a threshold flags, for each name that key gives a text.
func At(all []Scored, threshold float64, key func(Scored) string) map[string]Rates {
	by := make(map[string]Rates)
	for _, s := range all {
		k := key(s)
		r := by[k]
		flagged := 0
		if s.Score >= threshold {
			flagged = 1
		}
		if s.Label == 1 {
			r.Attacks++
			r.Flagged += flagged
		} else {
			r.Honest++
			r.False += flagged
		}
		by[k] = r
	}
	return by
}
