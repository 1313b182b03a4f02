package search

import (
	"cmp"
	"slices"
	"strings"
)

// Limits of a query.
const (
	// MaxQuery is the length of a query in characters.
	MaxQuery = 1000
	maxTerms = 32 // words that are used, of those that say something the rarest
	maxForms = 48 // words of the index that one word of a query may match
)

// Weights of the forms of a word, relative to the word itself.
const (
	worthSynonym  = 0.55
	worthPhrase   = 0.8
	worthWeak     = 0.35
	worthPrefix   = 0.75
	worthPrefixed = 0.3 // if the word itself is in the index too
	worthTypo     = 0.8
	worthFarTypo  = 0.55
)

// Factors for the name of a tool: when the query contains all words of the name,
// and when the query is the name.
const (
	boostName   = 0.35
	boostServer = 0.5
	boostExact  = 3
	// floor is the share of the best result's score below which tools are not
	// results.
	floor = 0.12
)

// scratch is the working memory of one search.
type scratch struct {
	score, best []float32
	hits        []uint8 // words of the query that matched
	names       []uint8 // hits in the name
	bestIn      []bool
	server      []bool  // the upstream whose name is in the query
	touched     []int32 // changed by the current word
	found       []int32 // changed by the query
}

func newScratch(n int) *scratch {
	return &scratch{score: make([]float32, n), best: make([]float32, n), hits: make([]uint8, n), names: make([]uint8, n), bestIn: make([]bool, n), server: make([]bool, n)}
}

// Search returns at most limit tools that match a query and that permit accepts,
// best first. permit is called in the order of the results, and only until
// enough are found. Of a long query the words that say most are used, wherever they are in it.
func (x *Index) Search(query string, limit int, permit func(*Tool) bool) []*Tool {
	if limit < 1 || len(x.tools) == 0 {
		return nil
	}
	terms := x.read(query)
	s := x.scratch.Get().(*scratch)
	defer x.release(s)
	for _, t := range terms {
		x.score(s, t)
	}
	x.boost(s, query, len(terms))
	return x.pick(s, limit, permit)
}

// release clears the memory and returns it to the pool.
func (x *Index) release(s *scratch) {
	for _, i := range s.found {
		s.score[i], s.hits[i], s.names[i], s.server[i] = 0, 0, 0, false
	}
	s.found = s.found[:0]
	x.scratch.Put(s)
}

// form is a word of the index that matches a word of a query.
type form struct {
	word  int32
	worth float32
}

// read returns the forms of the significant words of a query.
func (x *Index) read(query string) [][]form {
	var all, words []string // as written, and in the form of the index
	seen := map[string]bool{}
	add := func(term string) {
		if term != "" && !seen[term] {
			seen[term] = true
			words = append(words, term)
		}
	}
	eachRun(cut(query, 4*MaxQuery), func(run string) {
		all = append(all, strings.ToLower(run))
		eachTerm(run, add)
	})
	words = x.telling(slices.DeleteFunc(words, func(w string) bool { return x.lexicon.stop[w] }))
	if len(words) == 0 {
		eachRun(cut(query, 4*MaxQuery), func(run string) { words = append(words, term(run)) })
		words = words[:min(len(words), maxTerms)]
	}
	forms := make([][]form, 0, len(words)+2)
	for _, w := range words {
		if f := x.forms(w); len(f) > 0 {
			forms = append(forms, f)
		}
	}
	return x.appendPhrases(forms, all, seen)
}

// telling returns the words that are used: all if there are few, else the rarest of the index,
// by themselves or by their synonyms.
func (x *Index) telling(words []string) []string {
	if len(words) <= maxTerms {
		return words
	}
	weights := make(map[string]float32, len(words))
	for _, w := range words {
		weight := x.rarity(w)
		for _, other := range x.lexicon.synonyms[w] {
			weight = max(weight, worthSynonym*x.rarity(other))
		}
		if x.lexicon.weak[w] {
			weight *= worthWeak
		}
		weights[w] = weight
	}
	slices.SortStableFunc(words, func(a, b string) int { return cmp.Compare(weights[b], weights[a]) })
	return words[:maxTerms]
}

// rarity returns the weight of a word in the index; 0 if it is not there.
func (x *Index) rarity(term string) float32 {
	if id, known := x.terms[term]; known {
		return x.vocabulary[id].idf
	}
	return 0
}

// appendPhrases adds matches of neighboring words: pairs that the index has as
// one word (web hook), and phrases of the thesaurus, each once.
func (x *Index) appendPhrases(forms [][]form, all []string, seen map[string]bool) [][]form {
	for i := 1; i < len(all) && len(forms) < 2*maxTerms; i++ {
		a, b := all[i-1], all[i]
		if w := stem(a + b); !seen[w] && !x.lexicon.stop[a] && !x.lexicon.stop[b] {
			if id, known := x.terms[w]; known {
				forms, seen[w] = append(forms, []form{{id, 1}}), true
			}
		}
		key := stem(a) + " " + stem(b)
		if seen[key] {
			continue
		}
		seen[key] = true
		others := x.lexicon.synonyms[key]
		if i > 1 {
			others = append(slices.Clip(others), x.lexicon.synonyms[stem(all[i-2])+" "+key]...)
		}
		if f := x.appendWords(nil, others, worthPhrase); len(f) > 0 {
			forms = append(forms, f)
		}
	}
	return forms
}

// appendWords adds the words of a list that are in the index.
func (x *Index) appendWords(forms []form, words []string, worth float32) []form {
	for _, w := range words {
		if id, known := x.terms[w]; known {
			forms = append(forms, form{id, worth})
		}
	}
	return forms
}

// forms returns the matches of a word of a query: itself, its synonyms, words
// that begin with it, and if there are none of these the words that it may be a
// misspelling of.
func (x *Index) forms(term string) []form {
	var forms []form
	exact, known := x.terms[term]
	if known {
		forms = append(forms, form{exact, 1})
	}
	forms = x.appendWords(forms, x.lexicon.synonyms[term], worthSynonym)
	synonyms := len(forms)
	if len(term) >= 3 {
		forms = x.appendPrefixed(forms, term, known)
	}
	if !known && len(forms) == synonyms && len(term) >= 4 {
		forms = x.appendTypos(forms, term)
	}
	if x.lexicon.weak[term] {
		for i := range forms {
			forms[i].worth *= worthWeak
		}
	}
	return forms
}

// appendPrefixed adds the words that begin with a term.
func (x *Index) appendPrefixed(forms []form, term string, known bool) []form {
	i, _ := slices.BinarySearchFunc(x.vocabulary, term, func(w word, term string) int { return strings.Compare(w.text, term) })
	worth := float32(worthPrefix)
	if known {
		worth = worthPrefixed
	}
	for ; i < len(x.vocabulary) && len(forms) < maxForms; i++ {
		w := x.vocabulary[i].text
		if !strings.HasPrefix(w, term) {
			break
		}
		if w != term {
			part := worth * float32(len(term)+4) / float32(len(w)+4)
			if known { // a rarer word with this prefix gets at most the weight of the word itself
				part *= min(1, x.vocabulary[x.terms[term]].idf/x.vocabulary[i].idf)
			}
			forms = append(forms, form{int32(i), part})
		}
	}
	return forms
}

// appendTypos adds the words that a term may be a misspelling of: the nearest
// ones, one edit away, or two for longer words.
func (x *Index) appendTypos(forms []form, term string) []form {
	d := 1
	if len(term) >= 7 {
		d = 2
	}
	set := letters(term)
	near := len(forms)
	for i := range x.vocabulary {
		w := &x.vocabulary[i]
		if !mayBeTypo(w.letters, set, d) || len(w.text) > len(term)+d || len(w.text) < len(term)-d {
			continue
		}
		got := distance(term, w.text, d)
		if got > d {
			continue
		}
		worth := float32(worthTypo)
		if got > 1 {
			worth = worthFarTypo
		}
		if w.text[0] != term[0] {
			if len(term) < 6 {
				continue // the first letter is seldom wrong: rain is not a misspelling of train
			}
			worth *= 0.6
		}
		if got < d { // more distant words no longer count
			forms, d = forms[:near], got
		}
		if len(forms) < maxForms {
			forms = append(forms, form{int32(i), worth})
		}
	}
	return forms
}

// distance is the edit distance of two words, where swapping neighbors is one
// edit; a distance above limit is returned as limit+1.
func distance(a, b string, limit int) int {
	if len(a) > 2*maxTerm || len(b) > 2*maxTerm {
		return limit + 1
	}
	var rows [3][2*maxTerm + 1]int
	for j := range len(b) + 1 {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		two, one, row := &rows[(i+2)%3], &rows[i%3], &rows[(i+1)%3]
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			v := min(one[j]+1, row[j-1]+1, one[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				v = min(v, two[j-2]+1)
			}
			row[j] = v
			least = min(least, v)
		}
		if least > limit {
			return limit + 1
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}

// score adds the score of one word of the query. Only the best of its forms
// counts, so that a tool does not gain from many synonyms.
func (x *Index) score(s *scratch, forms []form) {
	for _, f := range forms {
		w := &x.vocabulary[f.word]
		weight := f.worth * w.idf
		for _, p := range w.postings {
			v := weight * p.impact
			if s.best[p.tool] == 0 {
				s.touched = append(s.touched, p.tool)
			}
			if v > s.best[p.tool] {
				s.best[p.tool] = v
			}
			s.bestIn[p.tool] = s.bestIn[p.tool] || p.inName
			s.server[p.tool] = s.server[p.tool] || p.inServer && f.worth >= worthFarTypo
		}
	}
	for _, i := range s.touched {
		if s.hits[i] == 0 {
			s.found = append(s.found, i)
		}
		s.score[i] += s.best[i]
		s.hits[i]++
		if s.bestIn[i] {
			s.names[i]++
		}
		s.best[i], s.bestIn[i] = 0, false
	}
	s.touched = s.touched[:0]
}

// boost raises the scores of tools that match more words of the query, and of
// tools whose name is in the query.
func (x *Index) boost(s *scratch, query string, terms int) {
	if terms == 0 {
		return
	}
	for _, i := range s.found {
		covered := float32(s.hits[i]) / float32(terms)
		named := float32(min(s.names[i], x.nameWords[i])) / float32(max(x.nameWords[i], 1))
		s.score[i] *= (0.4 + 0.6*covered) * (1 + boostName*named)
		if s.server[i] {
			s.score[i] *= 1 + boostServer
		}
	}
	for _, i := range x.names[joined(query)] {
		if s.hits[i] > 0 {
			s.score[i] *= boostExact
		}
	}
}

// pick returns the best tools that permit accepts.
func (x *Index) pick(s *scratch, limit int, permit func(*Tool) bool) []*Tool {
	heap := heap{s.score, s.found}
	for i := len(heap.items)/2 - 1; i >= 0; i-- {
		heap.down(i)
	}
	var picked []*Tool
	least := float32(0)
	for len(heap.items) > 0 && len(picked) < limit {
		i := heap.pop()
		if s.score[i] < least {
			break
		}
		if t := x.tools[i]; permit(t) {
			if len(picked) == 0 {
				least = s.score[i] * floor
			}
			picked = append(picked, t)
		}
	}
	return picked
}

// heap contains tools with the best on top; among equals the one that comes
// first in the index.
type heap struct {
	score []float32
	items []int32
}

func (h *heap) before(a, b int32) bool {
	return h.score[a] > h.score[b] || h.score[a] == h.score[b] && a < b
}

func (h *heap) down(i int) {
	for {
		top := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h.items); c++ {
			if h.before(h.items[c], h.items[top]) {
				top = c
			}
		}
		if top == i {
			return
		}
		h.items[i], h.items[top] = h.items[top], h.items[i]
		i = top
	}
}

// pop removes the best. Removed tools stay after the end of the heap, so that
// the whole list can be cleared later.
func (h *heap) pop() int32 {
	last := len(h.items) - 1
	h.items[0], h.items[last] = h.items[last], h.items[0]
	best := h.items[last]
	h.items = h.items[:last]
	h.down(0)
	return best
}
