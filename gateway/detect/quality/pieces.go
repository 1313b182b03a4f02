package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"svc/gateway/detect"
)

// Pieces of files as they stand on a machine: nobody wrote them for this, and
// nearly all are honest.
const (
	pieceSize   = 900     // bytes of a piece at most
	maxFileSize = 1 << 20 // larger files are left out
)

// pieces writes how many pieces of the text files under each of dirs are taken for
// attacks. Of the pieces each every-th one is scored.
func pieces(w io.Writer, dirs []string, every int) error {
	fmt.Fprintf(w, "pieces of at most %d bytes, one of %d\n%-30s %s\n", pieceSize, every, "", "at 0.5, at 0.8")
	var all [3]int
	for _, dir := range dirs {
		var found [3]int // pieces, at 0.5, at 0.8
		number := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && path != dir:
				return nil // not ours to read
			case err != nil || !d.Type().IsRegular():
				return err
			}
			if info, err := d.Info(); err != nil || info.Size() > maxFileSize {
				return nil // gone meanwhile, or too large
			}
			b, err := os.ReadFile(path)
			if err != nil || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
				return nil // not ours to read, or no text
			}
			for len(b) > 0 {
				n := pieceOf(b)
				if number++; number%every == 0 {
					score, _ := detect.ScoreInjection(b[:n])
					found[0]++
					for i, cut := range []float64{0.5, 0.8} {
						if score >= cut {
							found[i+1]++
						}
					}
				}
				b = b[n:]
			}
			return nil
		})
		if err != nil {
			return err
		}
		shares(w, dir, found)
		for i, n := range found {
			all[i] += n
		}
	}
	shares(w, "all", all)
	return nil
}

func shares(w io.Writer, name string, found [3]int) {
	fmt.Fprintf(w, "%-30s %s, %s\n", name, of(found[1], found[0]), of(found[2], found[0]))
}

// pieceOf returns how long the first piece of b is: it ends with a line where there
// is one, else with a character.
func pieceOf(b []byte) int {
	if len(b) <= pieceSize {
		return len(b)
	}
	if i := bytes.LastIndexByte(b[:pieceSize], '\n'); i > 0 {
		return i + 1
	}
	n := pieceSize
	for n > 1 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}
