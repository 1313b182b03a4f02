package measure

import (
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
