package search

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// The fields of a tool, and the weight of a word in each.
const (
	fieldName = iota
	fieldTitle
	fieldUpstream
	fieldDescription
	fieldParam
	fieldParamText
	fieldCount
)

var fieldWeight = [fieldCount]float64{fieldName: 3.5, fieldTitle: 2, fieldUpstream: 1.5, fieldDescription: 1, fieldParam: 0.5, fieldParamText: 0.2}

// The constants of BM25: the saturation of term frequency, and the penalty of
// longer fields.
const (
	saturation = 1.2
	lengthNorm = 0.6
)

// Index finds tools by words. It is immutable and safe for concurrent use.
type Index struct {
	tools []*Tool // by name, then upstream
	// vocabulary is sorted, for prefix searches; terms finds a word in it.
	vocabulary []word
	terms      map[string]int32
	// names are the tools by their joined names.
	names map[string][]int32
	// nameWords counts the words of each tool's name.
	nameWords []uint8
	lexicon   *lexicon
	scratch   sync.Pool
}

// word is a term and where it is.
type word struct {
	text     string
	letters  uint64 // the characters that it contains
	idf      float32
	postings []posting
}

// posting is the weight of a term in one tool.
type posting struct {
	tool             int32
	inName, inServer bool
	impact           float32
}

// NewIndex builds an index of tools, which must not be modified afterwards.
func NewIndex(tools []*Tool) *Index {
	x := &Index{
		tools: slices.Clone(tools), terms: map[string]int32{}, names: map[string][]int32{},
		nameWords: make([]uint8, len(tools)), lexicon: lexiconOnce(),
	}
	slices.SortFunc(x.tools, func(a, b *Tool) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Upstream, b.Upstream))
	})
	b := newBuilder(len(tools))
	for i, t := range x.tools {
		b.add(int32(i), t)
		x.nameWords[i] = uint8(min(b.nameWords, math.MaxUint8))
		if name := joined(t.Name); name != "" {
			x.names[name] = append(x.names[name], int32(i))
		}
	}
	x.vocabulary = b.finish(len(tools))
	for i := range x.vocabulary {
		x.terms[x.vocabulary[i].text] = int32(i)
	}
	x.scratch.New = func() any { return newScratch(len(x.tools)) }
	return x
}

// Len counts the tools.
func (x *Index) Len() int { return len(x.tools) }

// count is the frequency of a term in the fields of one tool.
type count struct {
	tool int32
	in   [fieldCount]uint16
}

// builder collects counts; weights can only be computed when all lengths are
// known.
type builder struct {
	counts    map[string][]count
	lengths   [][fieldCount]uint16
	nameWords int
	total     [fieldCount]float64
}

func newBuilder(n int) *builder {
	return &builder{counts: make(map[string][]count, 4*n), lengths: make([][fieldCount]uint16, n)}
}

// add counts the words of a tool.
func (b *builder) add(i int32, t *Tool) {
	field := func(f int, text string) {
		eachTerm(text, func(term string) {
			if term == "" {
				return
			}
			list := b.counts[term]
			if n := len(list); n == 0 || list[n-1].tool != i {
				list = append(list, count{tool: i})
			}
			if c := &list[len(list)-1].in[f]; *c < math.MaxUint16 {
				*c++
			}
			b.counts[term] = list
			if b.lengths[i][f] < math.MaxUint16 {
				b.lengths[i][f]++
			}
		})
	}
	field(fieldName, t.Name)
	b.nameWords = int(b.lengths[i][fieldName])
	if name := joined(t.Name); strings.ContainsAny(t.Name, "_-./: ") {
		field(fieldName, name) // also as one word, for queries that spell it so
	}
	field(fieldTitle, t.Title)
	field(fieldUpstream, t.Upstream)
	field(fieldDescription, t.Description)
	for _, p := range t.params {
		field(fieldParam, p.name)
		field(fieldParamText, p.description)
	}
	for f := range fieldCount {
		b.total[f] += float64(b.lengths[i][f])
	}
}

// finish converts the counts into weights.
func (b *builder) finish(n int) []word {
	vocabulary := make([]word, 0, len(b.counts))
	for text, counts := range b.counts {
		w := word{text: text, letters: letters(text), postings: make([]posting, len(counts))}
		df := float64(len(counts))
		w.idf = float32(math.Log(1 + (float64(n)-df+0.5)/(df+0.5)))
		for i, c := range counts {
			tf := 0.0
			for f, k := range c.in {
				if k > 0 {
					tf += fieldWeight[f] * float64(k) / (1 - lengthNorm + lengthNorm*float64(b.lengths[c.tool][f])*float64(n)/b.total[f])
				}
			}
			w.postings[i] = posting{c.tool, c.in[fieldName] > 0, c.in[fieldUpstream] > 0, float32(tf * (saturation + 1) / (tf + saturation))}
		}
		vocabulary = append(vocabulary, w)
	}
	slices.SortFunc(vocabulary, func(a, b word) int { return strings.Compare(a.text, b.text) })
	return vocabulary
}

// letters returns the set of characters of a word as bits: words with very
// different sets cannot be misspellings of one another.
func letters(text string) uint64 {
	var set uint64
	for i := range len(text) {
		set |= 1 << (text[i] & 63)
	}
	return set
}

// mayBeTypo reports whether two words can be at most d edits apart, judging by
// their characters.
func mayBeTypo(a, b uint64, d int) bool { return bits.OnesCount64(a^b) <= 2*d }
