package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// text is a text of a family, an attack or a benign text.
type text struct {
	Source string `json:"source"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Marked *bool  `json:"marked"` // whether an attack is recognizable by its form
}

// maxLine bounds a line of a file, in bytes.
const maxLine = 16 << 20

// readTexts reads the texts of a file, or of the files *.jsonl of a folder.
func readTexts(path string) (all []text, err error) {
	names := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		if names, err = filepath.Glob(filepath.Join(path, "*.jsonl")); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if all, err = readFile(all, name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readFile appends the texts of a file.
func readFile(all []text, name string) ([]text, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var t text
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		all = append(all, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}
