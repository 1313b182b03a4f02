package detect

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// labelled is a labelled span of a text: byte offsets, and its text to check them.
type labelled struct {
	Entity string `json:"entity"`
	Text   string `json:"text"`
	Start  int    `json:"start"`
	End    int    `json:"end"`
}

// labelledText is a text and the entities in it.
type labelledText struct {
	ID       string     `json:"id"`
	Text     string     `json:"text"`
	Lang     string     `json:"lang"`
	Kind     string     `json:"kind"`
	Entities []labelled `json:"entities"`
}

// counts compares findings with labels: an exact match of entity and span is right, anything else
// counts as one wrong finding and one missed label.
type counts struct {
	Right  int // found and labelled
	Extra  int // found, not labelled
	Missed int // labelled, not found
}

// Precision is the share of findings that are right, 1 when there are none.
func (c counts) Precision() float64 { return shareOf(c.Right, c.Right+c.Extra) }

// Recall is the share of labels that are found, 1 when there are none.
func (c counts) Recall() float64 { return shareOf(c.Right, c.Right+c.Missed) }

// F1 is the harmonic mean of precision and recall.
func (c counts) F1() float64 { return shareOf(2*c.Right, 2*c.Right+c.Extra+c.Missed) }

func shareOf(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

// wrongText is a text in which findings and labels differ.
type wrongText struct {
	Of     labelledText
	Extra  []Match
	Missed []labelled
}

// countEntities counts what the scanner finds in texts, by entity and, under "", overall.
func countEntities(texts []labelledText) (by map[string]counts, wrong []wrongText) {
	by = make(map[string]counts)
	s := NewScanner()
	for _, t := range texts {
		found := s.Scan(nil, []byte(t.Text))
		w := wrongText{Of: t}
		count := func(entity string, add counts) {
			for _, name := range []string{entity, ""} {
				c := by[name]
				by[name] = counts{c.Right + add.Right, c.Extra + add.Extra, c.Missed + add.Missed}
			}
		}
		for _, m := range found {
			if slices.ContainsFunc(t.Entities, func(e labelled) bool { return same(e, m) }) {
				count(string(m.Entity), counts{Right: 1})
			} else {
				count(string(m.Entity), counts{Extra: 1})
				w.Extra = append(w.Extra, m)
			}
		}
		for _, e := range t.Entities {
			if !slices.ContainsFunc(found, func(m Match) bool { return same(e, m) }) {
				count(e.Entity, counts{Missed: 1})
				w.Missed = append(w.Missed, e)
			}
		}
		if len(w.Extra)+len(w.Missed) > 0 {
			wrong = append(wrong, w)
		}
	}
	return by, wrong
}

func same(e labelled, m Match) bool {
	return e.Entity == string(m.Entity) && e.Start == m.Start && e.End == m.End
}

// readLines reads a file of JSON lines.
func readLines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var x T
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatalf("%s: line %d: %v", name, len(all)+1, err)
		}
		all = append(all, x)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEntitiesOfTheCorpora checks the results on the corpus that the detectors were developed
// with, and on one whose author had not seen them.
func TestEntitiesOfTheCorpora(t *testing.T) {
	for _, c := range []struct {
		dir       string
		each, all float64
	}{{"testdata/dev", 0.97, 0.99}, {"testdata/heldout", 0, 0.985}} {
		texts := readLines[labelledText](t, c.dir+"/pii.jsonl")
		for _, x := range texts {
			for _, e := range x.Entities {
				if e.Start < 0 || e.End > len(x.Text) || e.Start >= e.End || x.Text[e.Start:e.End] != e.Text {
					t.Fatalf("%s: %s: the label %s %d–%d does not cover %q", c.dir, x.ID, e.Entity, e.Start, e.End, e.Text)
				}
			}
		}
		if len(texts) < 600 {
			t.Fatalf("%s has %d texts", c.dir, len(texts))
		}
		by, wrong := countEntities(texts)
		for name, n := range by {
			if n.F1() < c.each {
				t.Errorf("%s: %q: F1 %.4f: %+v", c.dir, name, n.F1(), n)
			}
		}
		if f := by[""].F1(); f < c.all {
			t.Errorf("%s: F1 %.4f with %d texts wrong", c.dir, f, len(wrong))
		}
		all := by[""]
		t.Logf("%s: F1 %.4f: %+v", c.dir, all.F1(), all)
		for _, e := range Entities() {
			if by[string(e)].Right == 0 && e.bit()&wantIdentity == 0 { // these have a test of their own
				t.Errorf("%s: no %s found", c.dir, e)
			}
		}
	}
}

// TestScoresOfTheHeldOutCorpus: the corpus has mostly attacks without suspicious phrasing and
// benign texts that resemble attacks, so that little is found; the test checks that benign texts
// are not blocked.
func TestScoresOfTheHeldOutCorpus(t *testing.T) {
	texts := readLines[struct {
		Text  string
		Label int
	}](t, "testdata/heldout/injection.jsonl")
	attacks, found, honest, warned, blocked := 0, 0, 0, 0, 0
	for _, x := range texts {
		score, _ := ScoreInjection([]byte(x.Text))
		switch {
		case x.Label == 1:
			attacks++
			if score >= 0.5 {
				found++
			}
		default:
			honest++
			if score >= 0.5 {
				warned++
			}
			if score >= 0.8 {
				blocked++
			}
		}
	}
	t.Logf("%d of %d attacks at 0.5; of %d honest texts %d at 0.5, %d at 0.8", found, attacks, honest, warned, blocked)
	if attacks < 90 || found*100 < attacks*minHeldOut {
		t.Errorf("%d of %d attacks found, want %d %%", found, attacks, minHeldOut)
	}
	if honest < 230 || warned*25 > honest || blocked*70 > honest {
		t.Errorf("of %d benign texts %d cause a warning, %d are blocked", honest, warned, blocked)
	}
}

// minHeldOut is the share of the held-out attacks that must be found, in percent.
const minHeldOut = 20

func TestCounts(t *testing.T) {
	c := counts{Right: 8, Extra: 2, Missed: 8}
	for name, got := range map[string][2]float64{"precision": {c.Precision(), 0.8}, "recall": {c.Recall(), 0.5}, "F1": {c.F1(), 2 * 8 / (2*8 + 10.0)}} {
		if math.Abs(got[0]-got[1]) > 1e-9 {
			t.Errorf("%s %v, want %v", name, got[0], got[1])
		}
	}
	if c := (counts{}); c.Precision() != 1 || c.Recall() != 1 || c.F1() != 1 {
		t.Errorf("nothing found of nothing: %+v", c)
	}
}
