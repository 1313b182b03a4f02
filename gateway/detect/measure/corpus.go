// Package measure tells how good the detectors of gateway/detect are on a
// labelled corpus: precision and recall of every entity, recall and false
// positives of the injection score, with intervals.
//
// A corpus is a folder with pii.jsonl, injection.jsonl or both; further files
// of the same kind may stand beside them (pii-*.jsonl, injection-*.jsonl).
package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Entity is a labelled stretch of a text: bytes, the text itself to check them by.
type Entity struct {
	Entity string `json:"entity"`
	Text   string `json:"text"`
	Start  int    `json:"start"`
	End    int    `json:"end"`
}

// PII is a text and the entities in it.
type PII struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Lang     string   `json:"lang"`
	Kind     string   `json:"kind"`
	Entities []Entity `json:"entities"`
}

// Injection is a text that is an attack (Label 1, of a family) or is none.
type Injection struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Lang   string `json:"lang"`
	Kind   string `json:"kind"`
	Family string `json:"family"`
	Label  int    `json:"label"`
}

// maxLine bounds a line of a corpus, in bytes.
const maxLine = 1 << 20

// Load reads the corpus in dir. Both lists are empty when it has no files; a
// label that does not fit its text is an error.
func Load(dir string) (pii []PII, injections []Injection, err error) {
	if pii, err = load[PII](dir, "pii*.jsonl"); err != nil {
		return nil, nil, err
	}
	if injections, err = load[Injection](dir, "injection*.jsonl"); err != nil {
		return nil, nil, err
	}
	for _, p := range pii {
		for _, e := range p.Entities {
			if e.Start < 0 || e.End > len(p.Text) || e.Start >= e.End || p.Text[e.Start:e.End] != e.Text {
				return nil, nil, fmt.Errorf("corpus %s: %s: the label %s %d–%d does not cover %q", dir, p.ID, e.Entity, e.Start, e.End, e.Text)
			}
		}
	}
	for _, i := range injections {
		if i.Label != 0 && i.Label != 1 {
			return nil, nil, fmt.Errorf("corpus %s: %s: label %d is neither 0 nor 1", dir, i.ID, i.Label)
		}
	}
	return pii, injections, nil
}

func load[T any](dir, pattern string) (all []T, err error) {
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", dir, err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, maxLine)
		for n := 1; lines.Scan(); n++ {
			if len(lines.Bytes()) == 0 {
				continue
			}
			var x T
			if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
				f.Close()
				return nil, fmt.Errorf("corpus %s:%d: %w", name, n, err)
			}
			all = append(all, x)
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("corpus %s: %w", name, err)
		}
	}
	return all, nil
}
