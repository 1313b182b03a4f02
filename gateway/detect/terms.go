package detect

import "unicode/utf8"

// Kinds of terms, the first part of what is hashed.
const (
	termWord     = 0x01000193 * (iota + 1) // a whole word
	termStem                               // how a longer word begins
	termPair                               // two words in a row
	termNear                               // the beginnings of two words with small words between
	termSkip                               // the same with one more word between
	termTriple                             // three characters of a script without spaces
	termLetters                            // some letters in a row, within a word
	termMarks                              // punctuation
	termMarked                             // punctuation and the word behind it
	termMeaning                            // a meaning of the lexicon
	termMeanings                           // two meanings near each other, in their order
	termThree                              // three meanings in a row
)

// Values of terms: how much of the model a term of the kind may move. What
// generalises further counts more.
const (
	valueWord     = 3
	valueLetters  = 1
	valueMeaning  = 7
	valueMeanings = 5
)

// Bounds of terms.
const (
	stemBytes   = 5  // of a word in ASCII
	stemWide    = 10 // of a word in other letters
	maxTermWord = 24 // longer words are all one
	nearTokens  = 16 // two meanings at most that far apart are a term
	closeTokens = 5  // and so are those that close, as another one
	threeTokens = 10 // and three in a row
	maxRecent   = 8  // meanings that later ones are paired with
	maxMeanings = 6  // of one place
)

// reader makes the terms of a folded text. Terms are hashes; the model has a
// weight for some of them. A token is a word, a run of marks, or a character of
// a script without spaces.
type reader struct {
	model *table
	known *[1 << 15]uint32 // see knownWords
	sum   int32            // of the weights so far, in steps of the model
	token int32            // number of the token that is read

	collect bool
	terms   []Term
	places  [][2]int32 // of the tokens, when they are collected
	at, end int        // the bytes that terms lie in, when they are collected

	word, word2 uint32 // the two words before
	stem, stem2 uint32 // how the two words before began, small ones passed over
	wordAt      int32  // where those words began
	stemAt      int32
	stem2At     int32
	marks       uint32
	marksAt     int32
	opens       bool       // the next word begins a clause
	odd         [][2]int32 // words of small letters that are not known, in bytes
	recent      [maxRecent]meaning
	met         int // meanings so far
	translation translation
}

// meaning is a meaning and the token it stood at.
type meaning struct {
	id    uint32
	token int32
	at    int32
}

// Term is something the linear model may weigh: a hash, the token it ends at,
// and its value in the sum.
type Term struct {
	Hash     uint32
	Token    int32
	Value    int8
	Meaning  bool  // whether it is made of meanings, not of words
	from, to int32 // the bytes of the folded text that it was made from
}

// mix spreads a hash over all its bits.
func mix(h uint32) uint32 {
	h ^= h >> 15
	h *= 0x2C1B3C6D
	h ^= h >> 13
	return h
}

// join hashes two parts into one.
func join(a, b uint32) uint32 { return a*0x9E3779B1 ^ (b + a>>16) }

// add counts a term.
func (r *reader) add(h uint32, value int32, from int) {
	h = mix(h)
	if s := r.model.slots[h>>(32-slotBits)]; byte(s) == byte(h) {
		r.sum += int32(int8(s>>8)) * value
	}
	if r.collect {
		r.note(h, value, from)
	}
}

// note collects a term. It is kept out of add, which must stay small.
//
//go:noinline
func (r *reader) note(h uint32, value int32, from int) {
	r.terms = append(r.terms, Term{h, r.token, int8(value), value >= valueMeanings, int32(from), int32(r.end)})
}

// readMeanings counts the meanings of a hit, and their neighbours before it.
func (r *reader) readMeanings(h *hit) {
	aside := uint32(0)
	if h.flags&(quoted|reported|negated|inCode) != 0 {
		aside = firstAside
	}
	means := h.means &^ (rotated | reversed)
	for range maxMeanings {
		if means == 0 {
			break
		}
		r.meaning(means.lowest() | aside)
		means &= means - 1
	}
}

// readSenses counts senses, and their neighbours before them.
func (r *reader) readSenses(found uint64) {
	for range maxMeanings {
		if found == 0 {
			break
		}
		id := concept(found).lowest()
		if r.opens && id < firstStart-firstSense {
			r.meaning(firstStart + id)
		}
		r.meaning(firstSense + id)
		found &= found - 1
	}
}

// Numbers of meanings: those of the lexicon, the same where they are told of,
// and senses.
const (
	firstAside = 64
	firstSense = 128
	firstMark  = 176
	firstStart = 192 // senses of words that begin a clause, as orders do
)

// meaning counts a meaning and its neighbours.
func (r *reader) meaning(id uint32) {
	r.add(join(termMeaning, id), valueMeaning, r.at)
	for k := r.met - 1; k >= 0 && r.met-k <= maxRecent; k-- {
		m := r.recent[k%maxRecent]
		gap := r.token - m.token
		if gap > nearTokens {
			break
		}
		if m.id == id {
			continue
		}
		pair := join(termMeanings, m.id<<8|id)
		r.add(pair, valueMeanings, int(m.at))
		if gap <= closeTokens {
			r.add(pair+1, valueMeanings, int(m.at))
		}
	}
	if r.met > 1 {
		a, b := r.recent[(r.met-2)%maxRecent], r.recent[(r.met-1)%maxRecent]
		if r.token-a.token <= threeTokens && a.id != b.id && b.id != id {
			r.add(join(termThree, a.id<<16|b.id<<8|id), valueMeanings, int(a.at))
		}
	}
	r.recent[r.met%maxRecent] = meaning{id, r.token, int32(r.at)}
	r.met++
}

// readWord counts the terms of the word w, which begins at from.
func (r *reader) readWord(w []byte, from int) {
	if found := senseWords.of(w); found != 0 {
		r.readSenses(found)
	}
	h, digits, wide := uint32(2166136261), false, false
	for _, c := range w[:min(len(w), maxTermWord+1)] {
		if c <= '9' {
			c, digits = '0', true
		}
		wide = wide || c >= utf8.RuneSelf
		h = (h ^ uint32(c)) * 16777619
	}
	long := len(w) > maxTermWord && (!wide || len(w) > 3*maxTermWord)
	if long {
		h = 1
	}
	stem := h
	if n := stemLength(wide); len(w) > n && !digits && !long {
		stem = 2166136261
		for _, c := range w[:n] {
			stem = (stem ^ uint32(c)) * 16777619
		}
		r.add(join(termStem, stem), valueWord, from)
	}
	r.add(join(termWord, h), valueWord, from)
	if r.marks != 0 {
		r.add(join(join(termMarked, r.marks), h), valueWord, int(r.marksAt))
	}
	known := len(w) == 1 || r.known[h>>17]&(1<<(h>>12&31)) != 0
	english := known && !wide && r.translation.glossary.english(h)
	small := smallWord(w)
	r.translateWord(w, h, stem, small, english, !digits && !long, from)
	r.opens = false
	r.follow(h, stem, small)
	if len(w) < 4 || digits || long {
		return
	}
	if wide {
		r.lettersWide(w, from)
		return
	}
	if !known && len(r.odd) < maxOdd {
		r.odd = append(r.odd, [2]int32{int32(from), int32(from + len(w))})
	}
	k := uint32(' ')
	for i, c := range w {
		k = k<<8 | uint32(c)
		if i >= 2 {
			r.add(join(termLetters, k), valueLetters, from)
		}
	}
	r.add(join(termLetters, k<<8|' '), valueLetters, from)
}

// smallWord reports words that pairs pass over.
func smallWord(w []byte) bool {
	return len(w) <= 2 || len(w) == 3 && (string(w) == "the" || string(w) == "and" || string(w) == "for" || string(w) == "any" || string(w) == "all")
}

func stemLength(wide bool) int {
	if wide {
		return stemWide
	}
	return stemBytes
}

// follow counts a word with those before it.
func (r *reader) follow(h, stem uint32, small bool) {
	if r.word != 0 {
		r.add(join(join(termPair, r.word), h), valueWord, int(r.wordAt))
	}
	r.word2, r.word, r.wordAt, r.marks = r.word, h, int32(r.at), 0
	if small {
		return
	}
	if r.stem != 0 {
		r.add(join(join(termNear, r.stem), stem), valueWord, int(r.stemAt))
	}
	if r.stem2 != 0 {
		r.add(join(join(termSkip, r.stem2), stem), valueWord, int(r.stem2At))
	}
	r.stem2, r.stem, r.stem2At, r.stemAt = r.stem, stem, r.stemAt, int32(r.at)
}

// lettersWide counts six bytes in a row of a word beyond ASCII: three letters of
// most alphabets, two of Hangul.
func (r *reader) lettersWide(w []byte, from int) {
	k, n := uint64(' '), 1
	for i, c := range w {
		k = (k<<8 | uint64(c)) & (1<<48 - 1)
		if n++; n >= 6 && (i+1 == len(w) || utf8.RuneStart(w[i+1])) {
			r.add(join(join(termLetters, uint32(k)), uint32(k>>32)), valueLetters, from)
		}
	}
}

// readWide counts a character of a script without spaces, which rest begins with.
func (r *reader) readWide(c rune, rest []byte, from int) {
	if found := senseWords.at(rest); found != 0 {
		r.readSenses(found)
	}
	h, end := uint32(c)*0x85EBCA6B, r.end
	r.translateWide(rest, h, from)
	r.end = end
	r.add(join(termWord, h), valueWord, from)
	if r.word != 0 {
		r.add(join(join(termPair, r.word), h), valueWord, int(r.wordAt))
		if r.word2 != 0 {
			r.add(join(join(join(termTriple, r.word2), r.word), h), valueWord, int(r.wordAt))
		}
	}
	r.word2, r.word, r.wordAt, r.marks = r.word, h, int32(r.at), 0
	r.stem2, r.stem = r.stem, h
}

// readMarks counts a run of punctuation.
func (r *reader) readMarks(t []byte, from int) {
	h := uint32(0)
	for _, c := range t[:min(len(t), 4)] {
		h = h<<8 | uint32(c)
	}
	r.marks, r.marksAt = h, int32(from)
	for _, c := range t[:min(len(t), 4)] {
		r.opens = r.opens || c == '.' || c == '-'
		if k := markKinds[c]; k > 0 {
			r.meaning(firstMark + uint32(k))
			r.opens = r.opens || k <= 5
			break
		}
	}
	r.add(join(termMarks, h), valueWord, from)
}

// wideRune reports characters that are tokens of their own.
func wideRune(r rune) bool { return r >= 0x2E80 && r <= 0xA4CF || r >= 0xF900 && r <= 0xFAFF }

// markKinds number the marks that are read like words; those up to 5 begin a
// clause.
var markKinds = [256]uint8{':': 1, '!': 2, '?': 3, '>': 4, ';': 5, '<': 6, '[': 7, '"': 8, '(': 9, '#': 10, '{': 11, '/': 12, '*': 13, '@': 14}
