package detect

import "unicode/utf8"

// A close reading looks at the most suspicious window of a text once more, with
// the order of its words and what stands beside it. It costs as much for a short
// text as for a long one, and is done only when the window is suspicious.

// Marks of a token, besides its vector.
const (
	markSense   = 0   // the senses of its word
	markPoint   = 48  // the kind of its punctuation
	markConcept = 64  // the meanings of the lexicon
	markAside   = 128 // those that are quoted, reported or negated
	markInside  = 192 // it stands inside of the window, not beside it
	markLine    = 193 // it begins a line
	markUnknown = 194 // a word of ASCII letters without a vector
	markNumber  = 195 // a word with digits
	markForeign = 196 // a word in other letters
	markWide    = 197 // a character of a script without spaces
	markOpens   = 198 // it begins a clause
	markFirst   = 199 // the text begins with it
	closeMarks  = 200
)

// Bounds of a close reading.
const (
	closeContext  = 480     // bytes beside the window, to each side
	closeStretch  = 6 << 10 // bytes of a stretch: words may be as long as a text
	maxClose      = 240     // tokens that are read
	maxCloseMarks = 12      // marks of one token
)

// Reading is a stretch of a folded text as the close reading sees it.
type Reading struct {
	Tokens []CloseToken
	hits   []hit
}

// CloseToken is a token of a close reading.
type CloseToken struct {
	Vector   []byte // VectorSize signed bytes, nil when the word has none
	Marks    [maxCloseMarks]uint8
	Count    uint8 // of Marks
	meant    meant
	from, to int32 // its bytes in the stretch
}

func (t *CloseToken) mark(m int) {
	if int(t.Count) < len(t.Marks) {
		t.Marks[t.Count] = uint8(m)
		t.Count++
	}
}

// margin returns the stretch of t that a close reading of the window from from
// to to looks at.
func margin(t []byte, from, to int) (lo, hi int) {
	if lo = max(0, from-closeContext); lo > 0 {
		for lo < from && t[lo-1] > ' ' {
			lo++
		}
		if lo == from { // no space in all of it
			for lo = from - closeContext; lo < from && !utf8.RuneStart(t[lo]); lo++ {
			}
		}
	}
	if hi = min(len(t), to+closeContext); hi < len(t) {
		for hi > to && t[hi] > ' ' {
			hi--
		}
		if hi == to {
			for hi = to + closeContext; hi > to && !utf8.RuneStart(t[hi]); hi-- {
			}
		}
	}
	if hi-lo > closeStretch {
		for hi = lo + closeStretch; hi > lo && !utf8.RuneStart(t[hi]); hi-- {
		}
	}
	return lo, hi
}

// maxBefore is how many tokens before the window are read: those of the window
// itself find room behind them.
const maxBefore = 120

// crowded returns where reading begins in what stands before a window, so that no
// more than about maxBefore tokens are read of it: words and marks are counted from
// its end.
func crowded(t []byte) int {
	tokens, at := 0, len(t)
	for at > 0 && tokens < maxBefore {
		at--
		word := wordByte(t[at])
		for at > 0 && t[at] > ' ' && t[at-1] > ' ' && wordByte(t[at-1]) == word && !(t[at] >= utf8.RuneSelf && utf8.RuneStart(t[at]) && len(t)-at > 2 && wideAt(t[at:])) {
			at--
		}
		if t[at] > ' ' {
			tokens++
		}
	}
	for at > 0 && at < len(t) && !utf8.RuneStart(t[at]) {
		at--
	}
	return at
}

// wideAt reports a character of a script without spaces, which is a token by itself.
func wideAt(t []byte) bool {
	c, _ := utf8.DecodeRune(t)
	return wideRune(c)
}

// Read reads a stretch of a folded text, in which the window goes from from to
// to. first says that the text begins with the stretch.
func (r *Reading) Read(t []byte, from, to int, first bool) {
	r.Tokens = r.Tokens[:0]
	r.hits = words.scan(r.hits[:0], t, false)
	opens, line, next := true, true, 0
	skip := crowded(t[:min(from, len(t))])
	g := theGlossary()
	for next < len(r.hits) && int(r.hits[next].off) < skip {
		next++
	}
	first = first && skip == 0
	for i := skip; i < len(t) && len(r.Tokens) < maxClose; {
		if t[i] <= ' ' {
			line = line || t[i] == '\n'
			opens = opens || t[i] == '\n'
			i++
			continue
		}
		r.Tokens = append(r.Tokens, CloseToken{})
		k := &r.Tokens[len(r.Tokens)-1]
		start := i
		if line {
			k.mark(markLine)
		}
		if first && start == 0 {
			k.mark(markFirst)
		}
		line = false
		i = k.token(t, i, g, &opens)
		if start < to && i > from {
			k.mark(markInside)
		}
		k.from, k.to = int32(start), int32(i)
		for next < len(r.hits) && int(r.hits[next].off) < i {
			base := markConcept
			if r.hits[next].flags&(quoted|reported|negated|inCode) != 0 {
				base = markAside
			}
			means := r.hits[next].means &^ (rotated | reversed)
			for range maxMeanings {
				if means == 0 {
					break
				}
				k.mark(base + int(means.lowest()))
				means &= means - 1
			}
			next++
		}
	}
	settle(r.Tokens, g)
}

// token reads the token that begins at i and returns where it ends.
func (k *CloseToken) token(t []byte, i int, g *glossary, opens *bool) int {
	start := i
	if !wordByte(t[i]) {
		kind := 0
		for i < len(t) && t[i] > ' ' && !wordByte(t[i]) {
			if m := int(markKinds[t[i]]); kind == 0 && m > 0 {
				kind = m
			}
			*opens = *opens || t[i] == '.' || t[i] == '-' || kind > 0 && kind <= 5
			i++
		}
		k.mark(markPoint + kind)
		return i
	}
	if *opens {
		k.mark(markOpens)
	}
	*opens = false
	var found uint64
	h, digits, foreign := uint32(2166136261), false, false
	for i < len(t) && wordByte(t[i]) {
		if t[i] >= 0xE2 {
			if c, n := utf8.DecodeRune(t[i:]); wideRune(c) {
				if i > start {
					break
				}
				return i + k.wideWord(t[i:], n, g)
			}
		}
		digits, foreign = digits || t[i] <= '9', foreign || t[i] >= utf8.RuneSelf
		h = (h ^ uint32(t[i])) * 16777619
		i++
	}
	found = senseWords.of(t[start:i])
	switch {
	case digits:
		k.mark(markNumber)
	case foreign:
		k.mark(markForeign)
		k.meant = g.of(t[start:i])
	default:
		k.meant = g.of(t[start:i])
		if k.Vector = vectorOf(h); k.Vector != nil && (g.english(h) || i-start == 1) {
			k.meant.tongues |= inEnglish
		} else if k.meant.n == 0 {
			k.mark(markUnknown)
		}
	}
	k.senses(found)
	return i
}

// wideWord reads the word of a script without spaces that t begins with, or its
// first character, of n bytes, when it is not known, and returns how many bytes it read.
func (k *CloseToken) wideWord(t []byte, n int, g *glossary) int {
	k.mark(markWide)
	meant, size := g.at(t)
	k.meant, size = meant, max(size, n)
	found := uint64(0)
	for at := 0; at < size; at++ {
		if utf8.RuneStart(t[at]) {
			found |= senseWords.at(t[at:])
		}
	}
	k.senses(found)
	return size
}

func (k *CloseToken) senses(found uint64) {
	for range maxMeanings {
		if found == 0 {
			return
		}
		k.mark(markSense + int(concept(found).lowest()))
		found &= found - 1
	}
}

// closeSlack is how much more suspicious than the first network the mean of all
// may be, in log odds.
const closeSlack = 2

// readClosely returns the log odds of the close reading, the mean of the
// networks. The others are not asked when the first one stays so far below least,
// what matters, that they would not change it: it is alone then.
func (e *examination) readClosely(least float64) float64 {
	e.reading.Read(e.stretch, e.from, e.to, e.first)
	sum := float64(0)
	for k, n := range e.words.model.close {
		n.Convolve(e.reading.Tokens, e.answers[:])
		e.pooled[k], e.places[k] = Pool(e.answers[:], len(e.reading.Tokens))
		odds, _ := n.Judge(&e.pooled[k])
		if sum += float64(odds); k == 0 && sum < least-closeSlack {
			return sum
		}
	}
	return sum / Networks
}

// maxCloseFeatures is how many places an explanation names.
const maxCloseFeatures = 3

// closest returns the places of the close reading that speak most for an attack:
// three tokens each, as the filters see them.
func (e *examination) closest() (all []heavy) {
	clear(e.gained[:])
	tokens := e.reading.Tokens
	for k, n := range e.words.model.close {
		_, units := n.Judge(&e.pooled[k])
		for f, x := range e.pooled[k] {
			at := e.places[k][f]
			if at < 0 {
				continue
			}
			slope := float32(0)
			for u, y := range units {
				if y > 0 {
					slope += n.Hidden[f*Units+u] * n.Out[u]
				}
			}
			e.gained[at] += float64(slope*x) / Networks
		}
	}
	for range maxCloseFeatures {
		best := 0
		for p := range tokens {
			if e.gained[p] > e.gained[best] {
				best = p
			}
		}
		if len(tokens) == 0 || e.gained[best] <= 0 {
			break
		}
		from, to := tokens[max(best-1, 0)].from, tokens[min(best+1, len(tokens)-1)].to
		all = append(all, heavy{"reading: " + shown(e.stretch[from:to]), e.gained[best], 1})
		e.gained[best] = 0
	}
	return all
}
