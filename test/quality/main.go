// Command quality measures gateway/policy/detect on the user's own texts:
//
//	go run ./test/quality -attacks FILE|DIR -honest FILE|DIR [-errors] [-backend URL [-form chat -model NAME] [-label NAME]]
//
// With -backend the score is that of a classifier, asked as 'svc guardrail serve' asks it.
//
// Files hold one JSON object a line with "text" and "source", the family of the text; attacks may
// have "kind" ("direct" ones, aimed at a chat bot, are counted separately) and "marked" (see
// marked.go).
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"time"

	"svc/gateway/policy/detect"
	"svc/gateway/policy/guardrail"
)

func main() {
	attacks := flag.String("attacks", "", "file or folder of attacks (JSON lines)")
	honest := flag.String("honest", "", "file or folder of honest texts (JSON lines)")
	list := flag.Bool("errors", false, "list what is judged wrongly")
	backend := flag.String("backend", "", "URL of a classifier, asked as 'svc guardrail serve' asks it")
	form := flag.String("form", string(guardrail.Classification), "how the backend is asked: classification or chat")
	model := flag.String("model", "", "model for -form chat")
	label := flag.String("label", "", "label of an injection")
	flag.Parse()
	err := errors.New("-attacks and -honest name the texts to measure on")
	if *attacks != "" && *honest != "" {
		score := scorer(own)
		err = nil
		if *backend != "" {
			score, err = classified(*backend, guardrail.Form(*form), *model, *label)
		}
		if err == nil {
			err = scoreReport(os.Stdout, score, *attacks, *honest, *list)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

// scored is a text and its score.
type scored struct {
	text
	score    float64
	features []detect.Feature
}

// scorer returns the score of a text and its reasons.
type scorer func(text []byte) (float64, []detect.Feature, error)

// own is the score of the gateway's own detector.
func own(text []byte) (float64, []detect.Feature, error) {
	score, features := detect.ScoreInjection(text)
	return score, features, nil
}

// classified returns a scorer that asks a classifier.
func classified(backend string, form guardrail.Form, model, label string) (scorer, error) {
	u, err := url.Parse(backend)
	if err != nil {
		return nil, err
	}
	const timeout = time.Minute
	c := &guardrail.Classifier{Backend: u, Form: form, Model: model, Label: label, From: 0.05, Threshold: 2, Timeout: timeout, Client: guardrail.NewClient(1),
		Own: func(text []byte) float64 {
			score, _ := detect.ScoreInjection(text)
			return score
		}}
	return func(text []byte) (float64, []detect.Feature, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		score, err := c.Score(ctx, text)
		return score, nil, err
	}, nil
}

func scoreAll(score scorer, path string) ([]scored, error) {
	texts, err := readTexts(path)
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s has no texts: want files of JSON lines with a member \"text\"", path)
	}
	all := make([]scored, len(texts))
	for i, t := range texts {
		points, features, err := score([]byte(t.Text))
		if err != nil {
			return nil, fmt.Errorf("%s: text %d: %w", path, i+1, err)
		}
		all[i] = scored{t, points, features}
	}
	return all, nil
}

// rates are the false positive rates at which recall is reported.
var rates = []float64{0.001, 0.003, 0.01, 0.03, 0.05}

func scoreReport(w io.Writer, score scorer, attackPath, honestPath string, mistakes bool) error {
	attacks, err := scoreAll(score, attackPath)
	if err != nil {
		return err
	}
	honest, err := scoreAll(score, honestPath)
	if err != nil {
		return err
	}
	by := make(map[string][]float64)
	markedBy := make(map[string][]float64)
	for _, a := range attacks {
		group := a.Kind + ": " + a.Source
		by[group] = append(by[group], a.score)
		if isMarked(a.text) {
			markedBy[group] = append(markedBy[group], a.score)
		}
	}
	fmt.Fprintf(w, "%d attacks, %d honest texts\n\nhonest texts that reach a threshold\n", len(attacks), len(honest))
	scores := make([]float64, len(honest))
	for i, h := range honest {
		scores[i] = h.score
	}
	for _, t := range []float64{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		fmt.Fprintf(w, "  %.2f  %4d  %.2f %%\n", t, reach(scores, t), 100*share(reach(scores, t), len(scores)))
	}
	table(w, "marked attacks", markedBy, scores)
	table(w, "all attacks", by, scores)
	honestBy := make(map[string][]float64)
	for _, h := range honest {
		honestBy[h.Source] = append(honestBy[h.Source], h.score)
	}
	fmt.Fprintf(w, "\n%-52s %6s %8s %8s\n", "honest texts at a threshold, by source", "texts", "0.5", "0.8")
	for _, s := range slices.Sorted(maps.Keys(honestBy)) {
		l := honestBy[s]
		fmt.Fprintf(w, "%-52s %6d %8.3f %8.3f\n", s, len(l), share(reach(l, 0.5), len(l)), share(reach(l, 0.8), len(l)))
	}
	if mistakes {
		list(w, "honest, scored high", honest, func(s scored) bool { return s.score >= 0.5 })
		list(w, "attacks, scored low", attacks, func(s scored) bool { return s.score < 0.5 && isMarked(s.text) })
	}
	return nil
}

// table prints recall by source at fixed thresholds, and at those with certain false positive
// rates.
func table(w io.Writer, title string, by map[string][]float64, honest []float64) {
	thresholds := []float64{0.5, 0.8}
	fmt.Fprintf(w, "\n%-52s %6s %8s %8s", "recall of "+title+", by source", "texts", "0.5", "0.8")
	for _, r := range rates {
		thresholds = append(thresholds, thresholdAt(honest, r))
		fmt.Fprintf(w, " %7.1f%%", 100*r)
	}
	fmt.Fprintf(w, "\n%-68s", "")
	for _, t := range thresholds {
		fmt.Fprintf(w, " %8.3f", t)
	}
	fmt.Fprintln(w)
	for _, kind := range []string{"indirect", "direct", ""} {
		sum, n := make([]float64, len(thresholds)), 0.0
		for _, s := range slices.Sorted(maps.Keys(by)) {
			if len(s) < len(kind)+2 || s[:len(kind)+2] != kind+": " {
				continue
			}
			fmt.Fprintf(w, "%-59s%9d", s, len(by[s]))
			for i, t := range thresholds {
				r := share(reach(by[s], t), len(by[s]))
				sum[i] += r
				fmt.Fprintf(w, " %8.3f", r)
			}
			fmt.Fprintln(w)
			n++
		}
		if n > 0 {
			fmt.Fprintf(w, "%-68s", "mean of the "+cmp.Or(kind, "other")+" sources")
			for _, x := range sum {
				fmt.Fprintf(w, " %8.3f", x/n)
			}
			fmt.Fprintln(w)
		}
	}
}

// thresholdAt returns the lowest score that at most a share of the benign texts reaches.
func thresholdAt(honest []float64, rate float64) float64 {
	sorted := slices.Sorted(slices.Values(honest))
	k := len(sorted) - 1 - int(rate*float64(len(sorted)))
	if k < 0 {
		return 0
	}
	return sorted[k] + 1e-9
}

func reach(scores []float64, t float64) (n int) {
	for _, s := range scores {
		if s >= t {
			n++
		}
	}
	return n
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

func list(w io.Writer, title string, all []scored, wanted func(scored) bool) {
	for _, s := range all {
		if wanted(s) {
			fmt.Fprintf(w, "\n%s: %.2f %s %v\n  %.300q\n", title, s.score, s.Source, s.features, s.Text)
		}
	}
}
