// Package measure reads labelled texts and counts how good the findings of gateway/detect are on them.
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

// Text is a text of a family, an attack or an honest one.
type Text struct {
	Source string `json:"source"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Label  int    `json:"label"`  // 1 for an attack, where a file holds both
	Marked *bool  `json:"marked"` // whether an attack shows by its form
}

// Texts reads the texts of a file, or of the files *.jsonl of a folder.
func Texts(path string) ([]Text, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	} else if info.IsDir() {
		return load[Text](path, "*.jsonl")
	}
	return load[Text](filepath.Dir(path), filepath.Base(path))
}

// maxLine bounds a line of a corpus, in bytes.
const maxLine = 16 << 20

// Load reads the labelled texts in dir; a label that does not fit its text is an error.
func Load(dir string) ([]PII, error) {
	pii, err := load[PII](dir, "pii*.jsonl")
	if err != nil {
		return nil, err
	}
	for _, p := range pii {
		for _, e := range p.Entities {
			if e.Start < 0 || e.End > len(p.Text) || e.Start >= e.End || p.Text[e.Start:e.End] != e.Text {
				return nil, fmt.Errorf("corpus %s: %s: the label %s %d–%d does not cover %q", dir, p.ID, e.Entity, e.Start, e.End, e.Text)
			}
		}
	}
	return pii, nil
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
