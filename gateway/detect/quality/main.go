// Command quality measures the detectors of gateway/detect on a labelled corpus
// and prints a report: go run ./gateway/detect/quality [-errors] [DIR]. With -pieces
// it counts the alarms among the files under some folders: go run
// ./gateway/detect/quality -pieces [-every 10] DIR...
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"svc/gateway/detect/measure"
)

func main() {
	errors := flag.Bool("errors", false, "list every text that is judged wrongly")
	threshold := flag.Float64("threshold", 0.5, "score from which a text counts as an attack")
	files := flag.Bool("pieces", false, "score pieces of the text files under the folders given, which are no corpus")
	every := flag.Int("every", 10, "with -pieces: score one of so many")
	flag.Parse()
	if *files {
		if err := pieces(os.Stdout, flag.Args(), max(*every, 1)); err != nil {
			fmt.Fprintln(os.Stderr, "quality:", err)
			os.Exit(1)
		}
		return
	}
	dir := "gateway/detect/testdata/dev"
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	if err := run(os.Stdout, dir, *threshold, *errors); err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

// run writes the report on the corpus in dir.
func run(w io.Writer, dir string, threshold float64, errors bool) error {
	pii, injections, err := measure.Load(dir)
	if err != nil {
		return err
	}
	if len(pii)+len(injections) == 0 {
		return fmt.Errorf("%s has no pii*.jsonl and no injection*.jsonl", dir)
	}
	fmt.Fprintf(w, "corpus %s: %d texts with entities labelled, %d texts for the injection score\n", dir, len(pii), len(injections))
	if len(pii) > 0 {
		entities(w, pii, errors)
	}
	if len(injections) > 0 {
		scores(w, measure.Score(injections), threshold, errors)
	}
	return nil
}

func entities(w io.Writer, texts []measure.PII, errors bool) {
	by, wrong := measure.Entities(texts)
	fmt.Fprintf(w, "\nentities, exact span and kind (95 %% intervals: Wilson)\n%-12s %6s %6s %6s  %-22s %-22s %s\n", "", "right", "extra", "missed", "precision", "recall", "F1")
	names := slices.Sorted(maps.Keys(by))
	for _, name := range append(names[1:], "") {
		c := by[name]
		shown := name
		if name == "" {
			shown = "overall"
		}
		fmt.Fprintf(w, "%-12s %6d %6d %6d  %s %s %.4f\n", shown, c.Right, c.Extra, c.Missed,
			interval(c.Right, c.Right+c.Extra), interval(c.Right, c.Right+c.Missed), c.F1())
	}
	low, high := measure.F1Interval(texts)
	fmt.Fprintf(w, "overall F1 %.4f, 95 %% interval %.4f to %.4f (bootstrap over texts)\n", by[""].F1(), low, high)
	for _, x := range wrong {
		if !errors {
			break
		}
		fmt.Fprintf(w, "\n%s (%s, %s): %q\n", x.Of.ID, x.Of.Kind, x.Of.Lang, x.Of.Text)
		for _, m := range x.Extra {
			fmt.Fprintf(w, "  extra  %s %q\n", m.Entity, x.Of.Text[m.Start:m.End])
		}
		for _, e := range x.Missed {
			fmt.Fprintf(w, "  missed %s %q\n", e.Entity, e.Text)
		}
	}
}

// argumentKinds are the kinds of texts that arguments of tool calls are made of;
// the others are what tools return and people write: pages, documents, tickets, chats.
var argumentKinds = []string{"code", "csv", "json", "log", "mail", "sql", "tool_argument"}

func scores(w io.Writer, all []measure.Scored, threshold float64, errors bool) {
	fmt.Fprintf(w, "\ninjection score (95 %% intervals: Wilson)\n%-10s %-30s %-29s %s\n", "threshold", "recall", "false positives", "of tool arguments ("+strings.Join(argumentKinds, ", ")+")")
	for _, t := range []float64{0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		r := measure.At(all, t, func(measure.Scored) string { return "" })[""]
		a := measure.At(all, t, func(s measure.Scored) string { return fmt.Sprint(slices.Contains(argumentKinds, s.Kind)) })["true"]
		fmt.Fprintf(w, "%-10.2f %s  %-29s %s\n", t, of(r.Flagged, r.Attacks), of(r.False, r.Honest), of(a.False, a.Honest))
	}
	for _, cut := range []struct {
		title string
		key   func(measure.Scored) string
	}{
		{"family", func(s measure.Scored) string { return s.Family }},
		{"kind", func(s measure.Scored) string { return s.Kind }},
		{"language", func(s measure.Scored) string { return s.Lang }},
	} {
		by := measure.At(all, threshold, cut.key)
		fmt.Fprintf(w, "\nat %.2f, by %s\n%-26s %-30s %s\n", threshold, cut.title, "", "recall", "false positives")
		for _, name := range slices.Sorted(maps.Keys(by)) {
			r := by[name]
			fmt.Fprintf(w, "%-26s %-30s %s\n", name, of(r.Flagged, r.Attacks), of(r.False, r.Honest))
		}
	}
	for _, s := range all {
		if errors && (s.Score >= threshold) != (s.Label == 1) {
			fmt.Fprintf(w, "\n%s (%s, %s, %s) label %d score %.2f: %q\n  %v\n", s.ID, s.Family, s.Kind, s.Lang, s.Label, s.Score, s.Text, s.Features)
		}
	}
}

func interval(n, all int) string {
	if all == 0 {
		return fmt.Sprintf("%-22s", "-")
	}
	low, high := measure.Wilson(n, all)
	return fmt.Sprintf("%.4f (%.3f–%.3f)  ", float64(n)/float64(all), low, high)
}

func of(n, all int) string {
	if all == 0 {
		return "-"
	}
	low, high := measure.Wilson(n, all)
	return fmt.Sprintf("%d/%d %.3f (%.3f–%.3f)", n, all, float64(n)/float64(all), low, high)
}
