package measure

import (
	"math"
	"testing"

	"svc/gateway/detect"
)

const dev = "../testdata/dev"

// TestDevelopmentCorpus pins what the detectors reach on the corpus they were
// made with. The figures that count are those of texts nobody tuned to.
func TestDevelopmentCorpus(t *testing.T) {
	pii, injections, err := Load(dev)
	if err != nil {
		t.Fatal(err)
	}
	attacks, honest := 0, 0
	for _, i := range injections {
		attacks += i.Label
		honest += 1 - i.Label
	}
	if len(pii) < 600 || attacks < 600 || honest < 1200 {
		t.Fatalf("corpus of %d texts with entities, %d attacks, %d honest texts", len(pii), attacks, honest)
	}
	by, wrong := Entities(pii)
	for name, c := range by {
		if c.F1() < 0.97 {
			t.Errorf("%q: F1 %.4f: %+v", name, c.F1(), c)
		}
	}
	if f := by[""].F1(); f < 0.99 {
		t.Errorf("F1 %.4f with %d texts wrong", f, len(wrong))
	}
	for _, e := range detect.Entities() {
		if by[string(e)].Right < 10 {
			t.Errorf("%s: only %d found", e, by[string(e)].Right)
		}
	}
	r := At(Score(injections), 0.5, func(Scored) string { return "" })[""]
	if r.Recall() < 0.94 {
		t.Errorf("recall %.3f: %+v", r.Recall(), r)
	}
	if r.FalsePositives() > 0.005 {
		t.Errorf("false positives %.3f: %+v", r.FalsePositives(), r)
	}
}

// TestHeldOutCorpus: what somebody wrote who had not seen the detectors is found
// as well as docs/detectors.md says, within what a refit may move. Its texts are
// not for tuning.
func TestHeldOutCorpus(t *testing.T) {
	pii, injections, err := Load("../testdata/heldout")
	if err != nil {
		t.Fatal(err)
	}
	if len(pii) < 600 || len(injections) < 1300 {
		t.Fatalf("corpus of %d and %d texts", len(pii), len(injections))
	}
	by, _ := Entities(pii)
	if f := by[""].F1(); f < 0.97 {
		t.Errorf("entities: F1 %.4f", f)
	}
	r := At(Score(injections), 0.5, func(Scored) string { return "" })[""]
	if r.Recall() < 0.75 || r.FalsePositives() > 0.018 {
		t.Errorf("score: recall %.3f, false positives %.3f: %+v", r.Recall(), r.FalsePositives(), r)
	}
}

// TestCounts checks the arithmetic on a case worked out by hand: 8 right, 2
// extra, 4 missed.
func TestCounts(t *testing.T) {
	c := Counts{Right: 8, Extra: 2, Missed: 4}
	if c.Precision() != 0.8 || math.Abs(c.Recall()-2.0/3) > 1e-9 || math.Abs(c.F1()-16.0/22) > 1e-9 {
		t.Errorf("%v %v %v", c.Precision(), c.Recall(), c.F1())
	}
	if low, high := Wilson(8, 10); math.Abs(low-0.4902) > 1e-3 || math.Abs(high-0.9433) > 1e-3 {
		t.Errorf("interval %v to %v", low, high)
	}
	by, wrong := Entities([]PII{{ID: "x", Text: "ada@example.org", Entities: []Entity{{"EMAIL", "ada@example.or", 0, 14}}}})
	if by["EMAIL"] != (Counts{Extra: 1, Missed: 1}) || len(wrong) != 1 {
		t.Errorf("a span that is one byte off: %+v", by)
	}
}
