package measure

import (
	"math"
	"testing"

	"svc/gateway/detect"
)

// TestEntitiesOfTheCorpora holds what the detectors reach on the corpus they were made with, and on one
// whose author had not seen them.
func TestEntitiesOfTheCorpora(t *testing.T) {
	for _, c := range []struct {
		dir       string
		each, all float64
	}{{"../testdata/dev", 0.97, 0.99}, {"../testdata/heldout", 0, 0.985}} {
		texts, err := Load(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(texts) < 600 {
			t.Fatalf("%s has %d texts", c.dir, len(texts))
		}
		by, wrong := Entities(texts)
		for name, n := range by {
			if n.F1() < c.each {
				t.Errorf("%s: %q: F1 %.4f: %+v", c.dir, name, n.F1(), n)
			}
		}
		if f := by[""].F1(); f < c.all {
			t.Errorf("%s: F1 %.4f with %d texts wrong", c.dir, f, len(wrong))
		}
		for _, e := range detect.Entities() {
			if by[string(e)].Right == 0 {
				t.Errorf("%s: no %s found", c.dir, e)
			}
		}
	}
}

// TestScoresOfTheHeldOutCorpus: its attacks are mostly plain requests and its honest texts mostly near misses,
// so that little is found; what matters here is that honest texts are not blocked.
func TestScoresOfTheHeldOutCorpus(t *testing.T) {
	texts, err := Texts("../testdata/heldout/injection.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	attacks, found, honest, warned, blocked := 0, 0, 0, 0, 0
	for _, x := range texts {
		score, _ := detect.ScoreInjection([]byte(x.Text))
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
	if attacks < 400 || found*100 < attacks*minHeldOut {
		t.Errorf("%d of %d attacks found, want %d %%", found, attacks, minHeldOut)
	}
	if honest < 900 || warned*33 > honest || blocked*140 > honest {
		t.Errorf("of %d honest texts %d are warned of, %d blocked", honest, warned, blocked)
	}
}

// minHeldOut is the share of the held-out attacks that must be found, in percent.
const minHeldOut = 20

func TestCounts(t *testing.T) {
	c := Counts{Right: 8, Extra: 2, Missed: 8}
	for name, got := range map[string][2]float64{"precision": {c.Precision(), 0.8}, "recall": {c.Recall(), 0.5}, "F1": {c.F1(), 2 * 8 / (2*8 + 10.0)}} {
		if math.Abs(got[0]-got[1]) > 1e-9 {
			t.Errorf("%s %v, want %v", name, got[0], got[1])
		}
	}
	if c := (Counts{}); c.Precision() != 1 || c.Recall() != 1 || c.F1() != 1 {
		t.Errorf("nothing found of nothing: %+v", c)
	}
}

func TestTextsOfAFolder(t *testing.T) {
	if _, err := Texts(t.TempDir() + "/none"); err == nil {
		t.Error("a folder that is not there has texts")
	}
	if texts, err := Texts("../testdata/heldout"); err != nil || len(texts) < 2000 {
		t.Errorf("%d texts, %v", len(texts), err)
	}
}
