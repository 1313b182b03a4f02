// Command fit fits the linear model and the networks of the injection score to
// the corpora of gateway/detect/testdata and writes their table: go run
// ./gateway/detect/fit.
//
// It prints what the score reaches on each author's texts when it was fitted to
// those of the others alone. The same corpora give the same table, byte for
// byte, on the same architecture.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"svc/gateway/detect"
	"svc/gateway/detect/measure"
)

func main() {
	dir := flag.String("corpora", "gateway/detect/testdata", "folder with a folder for each author")
	authors := flag.String("authors", strings.Join(usualAuthors, ","), "names of their folders")
	out := flag.String("o", "gateway/detect/model.bin", "table that is written; nothing is when empty")
	verbose := flag.Bool("v", false, "print what is found and missed by family, and the wrongly judged texts")
	flag.Parse()
	if err := run(os.Stdout, *dir, strings.Split(*authors, ","), *out, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

// usualAuthors are the corpora that the table in the repository is fitted to.
var usualAuthors = []string{
	"dev", "train-a", "train-b", "train-c", "train-d", "train-e", "train-f", "train-g", "train-h", "train-i",
	"train-j", "train-k", "train-l", "train-m", "train-n", "train-o", "train-p", "train-q", "train-r", "train-s", "train-t",
	"train-u", "train-v", "train-w", "train-x", "train-y", "train-z", "train-aa", "train-ab", "train-ac", generated, ordinary,
}

// generated is the corpus that was put together from parts: it teaches, but says
// nothing about how good the score is.
const generated = "generated"

// ordinary is the corpus of ordinary technical texts, all honest: it teaches too,
// and takes no part in setting thresholds.
const ordinary = "ordinary"

// Shares of honest texts above a score of 0.5 and of 0.8, by the estimate across
// authors, and of the attacks above 0.5 that the gate of the close reading may
// keep out.
const (
	shareGate = 0.02
	shareHalf = 0.02
	shareHigh = 0.004
)

func run(w io.Writer, dir string, authors []string, out string, verbose bool) error {
	samples, sum, err := load(dir, authors)
	if err != nil {
		return err
	}
	each(len(samples), func(i int) { samples[i].in = detect.InputsOf([]byte(samples[i].Text)) })
	var all []graded
	for _, part := range across(samples, leftOut(authors)) {
		all = append(all, part...)
	}
	report(w, all, authors, verbose)

	judged := tested(all, "")
	s := fitStack(judged)
	half, high := s.cut(judged, shareHalf), s.cut(judged, shareHigh)
	if high <= half {
		return fmt.Errorf("the honest texts over 0.5 and over 0.8 lie at the same log odds %v: too few of them", half)
	}
	for _, at := range []struct {
		score string
		cut   float64
	}{{"0.5", half}, {"0.8", high}} {
		recall, wrong := s.rates(judged, at.cut)
		fmt.Fprintf(w, "score %s, texts of all authors by what the others taught: recall %.3f, false positives %.4f\n", at.score, recall, wrong)
	}
	l := train(samples, usual)
	closely := stretches(l, samples)
	var networks [detect.Networks]*detect.Network
	each(len(networks), func(i int) { networks[i] = teach(closely, usualLesson, uint64(i+1)) })
	c, terms := quantise(l, s, half, high)
	c.Gate = float32(s.gate(judged, half, shareGate))
	fmt.Fprintf(w, "\n%d terms seen in %d texts or more; stack %+v\nlog odds of 0.5: %.3f, of 0.8: %.3f\n", len(l.terms), minTexts, s, half, high)
	if out == "" {
		return nil
	}
	return os.WriteFile(out, detect.EncodeModel(sum, c, terms, networks), 0o644)
}

// groups is how many groups of authors are left out, one after the other.
const groups = 4

// leftOut puts authors into groups that are left out together, which takes a part of
// the time of leaving out each by itself. Neighbours in the list are not in one group.
func leftOut(authors []string) [][]string {
	all := make([][]string, min(groups, len(authors)))
	for i, author := range authors {
		all[i%len(all)] = append(all[i%len(all)], author)
	}
	return all
}

// across grades the texts of every group of authors with what the others taught.
func across(samples []*sample, groups [][]string) [][]graded {
	parts := make([][]graded, len(groups))
	each(len(groups), func(i int) {
		var rest, own []*sample
		for _, s := range samples {
			if slices.Contains(groups[i], s.author) {
				own = append(own, s)
			} else {
				rest = append(rest, s)
			}
		}
		if len(rest) == 0 {
			rest = own
		}
		l := train(rest, usual)
		n := teach(stretches(l, rest), usualLesson, 1)
		parts[i] = grade(l, []*detect.Network{n}, own)
	})
	return parts
}

// grade judges texts with a model that has not seen them.
func grade(l *linear, networks []*detect.Network, texts []*sample) []graded {
	all := make([]graded, len(texts))
	each(len(texts), func(i int) {
		in := texts[i].in
		sum, view, from, to := l.best(in)
		all[i] = graded{sample: texts[i], words: sum + l.bias}
		if len(in.Views) == 0 {
			return
		}
		tokens := in.Views[view].ReadClosely(from, to)
		for _, n := range networks {
			all[i].close += judge(n, tokens) / float64(len(networks))
		}
	})
	return all
}

// tested returns the texts that say how good the score is on new authors: those
// that a person wrote, but for one author's.
func tested(all []graded, not string) (some []graded) {
	for _, g := range all {
		if g.author != not && g.author != generated && g.author != ordinary {
			some = append(some, g)
		}
	}
	if len(some) == 0 {
		return all
	}
	return some
}

// load reads the corpora of authors and sums them up, with the glossary that they are
// read with.
func load(dir string, authors []string) (samples []*sample, sum [sha256.Size]byte, err error) {
	h := sha256.New()
	if err := detect.SumGlossary(h); err != nil {
		return nil, sum, err
	}
	for _, author := range authors {
		_, texts, err := measure.Load(filepath.Join(dir, author))
		if err != nil {
			return nil, sum, err
		}
		if len(texts) == 0 {
			return nil, sum, fmt.Errorf("%s has no injection*.jsonl", filepath.Join(dir, author))
		}
		for _, t := range texts {
			line, err := json.Marshal(t)
			if err != nil {
				return nil, sum, fmt.Errorf("corpus %s: %s: %w", author, t.ID, err)
			}
			h.Write(line)
			samples = append(samples, &sample{Injection: t, author: author})
		}
	}
	return samples, [sha256.Size]byte(h.Sum(nil)), nil
}

// quantise turns a model into a table: weights as multiples of a step, terms
// that move most first.
func quantise(l *linear, s stack, half, high float64) (detect.Calibration, []detect.Weighted) {
	most := 0.0
	for _, w := range l.weights {
		most = math.Max(most, math.Abs(w))
	}
	step := most / 127
	type row struct {
		detect.Weighted
		size float64
	}
	rows := make([]row, 0, len(l.terms))
	for h, id := range l.terms {
		if q := math.Round(l.weights[id] / step); q != 0 {
			rows = append(rows, row{detect.Weighted{Hash: h, Weight: int8(q)}, math.Abs(l.weights[id])})
		}
	}
	sort.Slice(rows, func(i, k int) bool {
		if rows[i].size != rows[k].size {
			return rows[i].size > rows[k].size
		}
		return rows[i].Hash < rows[k].Hash
	})
	terms := make([]detect.Weighted, len(rows))
	for i, r := range rows {
		terms[i] = r.Weighted
	}
	// Log odds become scores so that half is 0.5 and high is 0.8 after the floor.
	const floor = 0.05
	logit := func(score float64) float64 {
		p := score*(1-floor) + floor
		return math.Log(p / (1 - p))
	}
	slope := (logit(0.8) - logit(0.5)) / (high - half)
	return detect.Calibration{
		Step: float32(step), Bias: float32(l.bias), Words: float32(slope * s.words), Close: float32(slope * s.close), Rules: float32(slope * s.rules), Aside: float32(slope * s.aside),
		Disguises: float32(slope * s.disguises), Offset: float32(logit(0.5) + slope*(s.offset-half)), Floor: floor,
	}, terms
}

// report prints what is found of each author's texts by what the others taught.
func report(w io.Writer, all []graded, authors []string, verbose bool) {
	fmt.Fprintf(w, "fitted to the other authors; recall at false positives of the author's own honest texts, and what the cut taken from the others gives\n")
	fmt.Fprintf(w, "%-10s %7s %7s  %-8s %-8s %-8s %-12s %-12s %s\n", "author", "attacks", "honest", "at 2 %", "at 5 %", "at 10 %", "words at 2 %", "close at 2 %", "at the cut of the others: recall, false positives")
	for _, author := range authors {
		var own []graded
		attacks := 0
		for _, g := range all {
			if g.author == author {
				own = append(own, g)
				attacks += g.Label
			}
		}
		others := tested(all, author)
		s := fitStack(others)
		recall, _ := s.rates(own, s.cut(own, 0.02))
		words := stack{words: 1}
		alone, _ := words.rates(own, words.cut(own, 0.02))
		cut := s.cut(others, shareHalf)
		blind, wrong := s.rates(own, cut)
		five, _ := s.rates(own, s.cut(own, 0.05))
		ten, _ := s.rates(own, s.cut(own, 0.1))
		near := stack{close: 1}
		closely, _ := near.rates(own, near.cut(own, 0.02))
		fmt.Fprintf(w, "%-10s %7d %7d  %-8.3f %-8.3f %-8.3f %-12.3f %-12.3f %.3f, %.3f\n", author, attacks, len(own)-attacks, recall, five, ten, alone, closely, blind, wrong)
		if verbose {
			families(w, own, s, s.cut(own, 0.02))
		}
	}
}

// families prints the rates by family, and the texts on the wrong side.
func families(w io.Writer, own []graded, s stack, cut float64) {
	by := make(map[string][]graded)
	for _, g := range own {
		k := fmt.Sprint(g.Label, " ", g.Family)
		by[k] = append(by[k], g)
		if g.Label == 1 && g.Lang != "en" {
			by["1 language "+g.Lang] = append(by["1 language "+g.Lang], g)
		}
	}
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		recall, wrong := s.rates(by[name], cut)
		fmt.Fprintf(w, "    %-30s %5d  %.3f\n", name, len(by[name]), recall+wrong)
	}
	for _, g := range own {
		if over := s.odds(g) >= cut; over != (g.Label == 1) {
			fmt.Fprintf(w, "      %d %.2f w %.2f r %.2f a %.2f d %.2f %s %s: %.200q\n", g.Label, s.odds(g)-cut, g.words, g.in.Rules, g.in.Aside, g.in.Disguises, g.Family, g.Lang, g.Text)
		}
	}
}
