package main

import (
	"bytes"
	"testing"

	"svc/gateway/detect"
)

// corpora is the folder of the corpora, seen from here.
const corpora = "../testdata"

// TestTableIsOfTheseCorpora holds that the table in the binary was fitted to the
// corpora as they are now.
func TestTableIsOfTheseCorpora(t *testing.T) {
	_, sum, err := load(corpora, usualAuthors)
	if err != nil {
		t.Fatal(err)
	}
	if sum != detect.ModelCorpus() {
		t.Error("the corpora have changed since: run go run ./gateway/detect/fit and commit the table")
	}
}

// TestFitIsTheSameEveryTime fits a few texts twice: the tables are equal, and
// tell attacks from honest texts.
func TestFitIsTheSameEveryTime(t *testing.T) {
	fit := func() ([]byte, *linear, []*sample) {
		all, sum, err := load(corpora, []string{"train-a"})
		if err != nil {
			t.Fatal(err)
		}
		var some []*sample
		for i, s := range all {
			if i%6 == 0 {
				s.in = detect.InputsOf([]byte(s.Text))
				some = append(some, s)
			}
		}
		var networks [detect.Networks]*detect.Network
		l := train(some, settings{lambda: usual.lambda, rounds: 2, steps: 15})
		how := usualLesson
		how.epochs = 2
		for i := range networks {
			networks[i] = teach(stretches(l, some), how, uint64(i))
		}
		c, terms := quantise(l, stack{words: 1}, 0, 1)
		return detect.EncodeModel(sum, c, terms, networks), l, some
	}
	one, l, texts := fit()
	two, _, _ := fit()
	if !bytes.Equal(one, two) {
		t.Error("the same texts gave two tables")
	}
	right := 0
	for _, g := range grade(l, nil, texts) {
		if (g.words > 0) == (g.Label == 1) {
			right++
		}
	}
	if right*10 < len(texts)*9 {
		t.Errorf("%d of %d texts that it was fitted to are told right", right, len(texts))
	}
}

// TestEveryAuthorIsLeftOutOnce holds, and that nobody teaches who is judged.
func TestEveryAuthorIsLeftOutOnce(t *testing.T) {
	for n := 1; n < 40; n++ {
		authors := make([]string, n)
		for i := range authors {
			authors[i] = string(rune('A' + i))
		}
		seen := make(map[string]int)
		for _, group := range leftOut(authors) {
			for _, author := range group {
				seen[author]++
			}
			if len(group) == 0 || n > 1 && len(group) == n {
				t.Errorf("%d authors: a group of %d", n, len(group))
			}
		}
		for _, author := range authors {
			if seen[author] != 1 {
				t.Errorf("%d authors: %s is left out %d times", n, author, seen[author])
			}
		}
	}
}
