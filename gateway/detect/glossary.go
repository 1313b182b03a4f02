package detect

import (
	"embed"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// glossaryFiles hold, for every language, the words that mean an English word: see
// glossary/README.md.
//
//go:embed glossary/*.txt
var glossaryFiles embed.FS

// glossary knows what words of other languages mean in English, so that what was
// learned of one language holds for the others. It is an open table: a hash is
// looked for from its own slot to the next free one. It does not change.
type glossary struct {
	whole, start [glossBits / 64]uint64 // hashes of words, and of beginnings of words, to pass most by
	aliens       []uint32               // hashes of words that have vectors, but are of other languages, in order
	alien        [alienBits / 64]uint64 // the same, to pass most by
	slots        []meaningOf
	heads        []head
}

// meaningOf is what a word means in one language.
type meaningOf struct {
	hash   uint32 // of the word, or of how it begins; see openKey
	head   uint16
	tongue uint8 // 0 in a free slot
}

// head is an English word that words of other languages mean, as the linear
// model sees it.
type head struct {
	word, stem uint32 // hashes
	small      bool   // see smallWord
}

const (
	glossBits = 1 << 20
	alienBits = 1 << 17
	openKey   = 0x5BD1E995 // tells the hash of a beginning from that of a whole word
	minStart  = 3          // bytes of the shortest beginning: a syllable of Korean
	maxGloss  = 40         // bytes of the longest beginning
	maxWide   = 24         // bytes of the longest word of a script without spaces
)

// SumGlossary writes the files of the glossary to w: a model is fitted to what they
// make of its texts.
func SumGlossary(w io.Writer) error {
	for _, name := range tongues {
		b, err := glossaryFiles.ReadFile(path.Join("glossary", name+".txt"))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s %d\n%s", name, len(b), b); err != nil {
			return err
		}
	}
	return nil
}

// theGlossary returns the glossary, which is read when the first text is scored.
var theGlossary = sync.OnceValue(newGlossary)

func newGlossary() *glossary {
	g := new(glossary)
	numbers := make(map[string]uint16)
	var all []meaningOf
	var words []string
	var f folded
	for t, name := range tongues {
		b, err := glossaryFiles.ReadFile(path.Join("glossary", name+".txt"))
		if err != nil {
			panic(err) // TestGlossary says so first
		}
		for line := range strings.Lines(string(b)) {
			english, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			n, known := numbers[english]
			if !known {
				n = uint16(len(g.heads))
				numbers[english] = n
				g.heads = append(g.heads, headOf(english))
			}
			f.foldText([]byte(rest))
			for w := range strings.FieldsSeq(string(f.text)) {
				w, open := strings.CutSuffix(w, "*")
				h, bits := hashBytes(w), &g.whole
				if !open && w[0] < utf8.RuneSelf {
					words = append(words, w)
				}
				if r, _ := utf8.DecodeRuneInString(w); open || hangul(r) { // particles follow
					h, bits = h^openKey, &g.start
				}
				bits[h%glossBits/64] |= 1 << (h % 64)
				all = append(all, meaningOf{h, n, uint8(t + 1)})
			}
		}
	}
	for _, w := range words {
		if h := hashBytes(w); vectorOf(h) != nil && !inflected(numbers, w) {
			g.alien[h%alienBits/64] |= 1 << (h % 64)
			g.aliens = append(g.aliens, h)
		}
	}
	slices.Sort(g.aliens)
	size := 1 << 8
	for size < len(all)+len(all)/2 {
		size *= 2
	}
	g.slots = make([]meaningOf, size)
	for _, m := range all {
		k := int(m.hash) & (size - 1)
		for g.slots[k].tongue != 0 {
			k = (k + 1) & (size - 1)
		}
		g.slots[k] = m
	}
	return g
}

// inflected reports whether w is one of words, or one with an English ending.
func inflected(words map[string]uint16, w string) bool {
	if _, known := words[w]; known {
		return true
	}
	for _, end := range []string{"s", "es", "d", "ed", "r", "er", "ing", "ly"} {
		if stem, cut := strings.CutSuffix(w, end); cut && len(stem) >= 3 {
			for _, more := range []string{"", "e"} {
				if _, known := words[stem+more]; known {
					return true
				}
			}
		}
	}
	return false
}

// english reports whether the word with a hash, which has a vector, is an English one.
func (g *glossary) english(h uint32) bool {
	if g.alien[h%alienBits/64]&(1<<(h%64)) == 0 {
		return true
	}
	_, alien := slices.BinarySearch(g.aliens, h)
	return !alien
}

func headOf(english string) head {
	h := head{word: hashBytes(english), small: smallWord([]byte(english))}
	h.stem = h.word
	if len(english) > stemBytes {
		h.stem = hashBytes(english[:stemBytes])
	}
	return h
}

// hangul reports syllables of Korean.
func hangul(r rune) bool { return r >= 0xAC00 && r <= 0xD7A3 }

// maxMeant is in how many languages the meaning of a word is kept: as many as are
// written in Latin letters.
const maxMeant = 8

// meant is what a word means in the languages that have it.
type meant struct {
	tongues tongueSet
	n       uint8
	in      [maxMeant]uint8 // languages
	head    [maxMeant]uint16
}

// put sets what the word means in a language; the last meaning stays.
func (m *meant) put(of *meaningOf) {
	m.tongues |= 1 << of.tongue
	for i := range m.in[:m.n] {
		if m.in[i] == of.tongue {
			m.head[i] = of.head
			return
		}
	}
	if int(m.n) < len(m.in) {
		m.in[m.n], m.head[m.n] = of.tongue, of.head
		m.n++
	}
}

// headIn returns what the word means in a language.
func (m *meant) headIn(tongue uint8) (head uint16, known bool) {
	for i := range m.in[:m.n] {
		if m.in[i] == tongue {
			return m.head[i], true
		}
	}
	return 0, false
}

// of finds what the folded word w means. In each language the very word counts
// before beginnings, and longer beginnings before shorter ones.
func (g *glossary) of(w []byte) (m meant) {
	g.look(w, &m)
	for n := 0; m.n == 0 && n < 3; n++ { // in Arabic small words are written as one with the next
		size := clitic(w)
		if size == 0 {
			break
		}
		w = w[size:]
		g.look(w, &m)
	}
	return m
}

func (g *glossary) look(w []byte, m *meant) {
	h := uint32(2166136261)
	for i, c := range w {
		if i == maxGloss { // longer than any word of the glossary
			return
		}
		h = (h ^ uint32(c)) * 16777619
		if i < minStart-1 {
			continue
		}
		if k := h ^ openKey; g.start[k%glossBits/64]&(1<<(k%64)) != 0 {
			g.each(k, m)
		}
	}
	if g.whole[h%glossBits/64]&(1<<(h%64)) != 0 {
		g.each(h, m)
	}
}

// each puts all meanings of a hash.
func (g *glossary) each(h uint32, m *meant) (found bool) {
	for k := int(h) & (len(g.slots) - 1); g.slots[k].tongue != 0; k = (k + 1) & (len(g.slots) - 1) {
		if g.slots[k].hash == h {
			m.put(&g.slots[k])
			found = true
		}
	}
	return found
}

// at finds the longest word that a text of a script without spaces begins with,
// and how many bytes it has, 0 when there is none.
func (g *glossary) at(t []byte) (m meant, size int) {
	h := uint32(2166136261)
	for i := 0; i < min(len(t), maxWide); {
		c, n := utf8.DecodeRune(t[i:])
		if !wideRune(c) {
			break
		}
		for range n {
			h = (h ^ uint32(t[i])) * 16777619
			i++
		}
		if g.whole[h%glossBits/64]&(1<<(h%64)) == 0 {
			continue
		}
		var longer meant
		if g.each(h, &longer) {
			m, size = longer, i
		}
	}
	return m, size
}

// clitic returns the size of the conjunction, preposition or article that an
// Arabic word begins with, 0 when it has none.
func clitic(w []byte) int {
	if len(w) < 6 || w[0] != 0xD8 && w[0] != 0xD9 {
		return 0
	}
	switch string(w[:2]) {
	case "و", "ف", "ب", "ك":
		return 2
	case "ل":
		if len(w) >= 8 && string(w[2:4]) == "ل" {
			return 4
		}
		return 2
	case "ا":
		if len(w) >= 8 && string(w[2:4]) == "ل" {
			return 4
		}
	}
	return 0
}
