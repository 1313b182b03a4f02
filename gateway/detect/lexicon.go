package detect

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// lexicon finds the phrases of all languages in a folded text.
type lexicon struct {
	first   [1 << 16 / 64]uint64 // hashes of keys, to pass most words by
	entries map[uint32]*bucket
}

// bucket holds the phrases of one key.
type bucket struct {
	entries []entry
	leads   []lead    // of the entries
	any     bool      // some do not need a second word that begins with a known byte
	seconds [4]uint64 // first bytes of the second words of the others
}

// lead is how a phrase begins, or its second word, to pass most phrases by.
type lead struct {
	bytes, mask uint64
	second      bool
}

// leadOf returns the first eight bytes of w, or all of fewer.
func leadOf(w string, second bool) lead {
	l := lead{second: second}
	for i := range min(len(w), 8) {
		l.bytes |= uint64(w[i]) << (8 * i)
		l.mask |= 0xFF << (8 * i)
	}
	return l
}

// eight returns the first eight bytes of a text, zeros behind a shorter one.
func eight(t []byte) (v uint64) {
	if len(t) >= 8 {
		return binary.LittleEndian.Uint64(t)
	}
	for i, c := range t {
		v |= uint64(c) << (8 * i)
	}
	return v
}

// free reports phrases that may stand before any second word.
func (e *entry) free() bool {
	return e.anywhere || e.second == 0 || e.open[0] || !wordByte(e.second)
}

// entry is one phrase. Its key is the hash of its whole first word, or of the
// first four bytes when more letters may follow or when it may begin anywhere.
type entry struct {
	words    []string // folded; the first is not empty
	open     []bool   // whether more letters may follow the word
	second   byte     // first byte of the second word, 0 when there is none
	means    concept
	anywhere bool // of a script without spaces: may begin inside of a word
}

// languages are all phrases that are looked for.
var languages = [][]phrases{english, german, french, spanish, italian, portuguese, dutch, polish, turkish, russian, chinese, japanese, korean, arabic}

// words is the lexicon.
var words = newLexicon(languages)

func newLexicon(languages [][]phrases) *lexicon {
	l := &lexicon{entries: make(map[uint32]*bucket)}
	var f folded
	seen := make(map[string]int) // phrase → index of its entry in its list
	for _, language := range languages {
		for _, p := range language {
			for text := range strings.SplitSeq(p.words, "|") {
				f.foldText([]byte(text))
				phrase := strings.TrimSpace(string(f.text))
				if phrase == "" {
					continue
				}
				l.add(phrase, p.means, seen)
			}
		}
	}
	return l
}

// add puts one folded phrase into the lexicon. Marks inside of words divide them,
// as they do in texts: don't is two words.
func (l *lexicon) add(phrase string, means concept, seen map[string]int) {
	e := entry{means: means}
	marks := []byte(phrase)
	for i := 1; i+1 < len(marks); i++ {
		if !wordByte(marks[i]) && marks[i] != '*' && wordByte(marks[i-1]) && wordByte(marks[i+1]) {
			marks[i] = ' '
		}
	}
	phrase = string(marks)
	for w := range strings.FieldsSeq(phrase) {
		word, open := strings.CutSuffix(w, "*")
		e.words, e.open = append(e.words, word), append(e.open, open)
	}
	r, _ := utf8.DecodeRuneInString(phrase)
	if e.anywhere = spaceless(r); e.anywhere {
		for i := range e.open {
			e.open[i] = true
		}
	}
	if len(e.words) > 1 {
		e.second = e.words[1][0]
	}
	k := wordKey([]byte(e.words[0]))
	if e.open[0] || e.anywhere {
		k = startKey([]byte(e.words[0]))
	}
	b := l.entries[k]
	if b == nil {
		b = new(bucket)
		l.entries[k] = b
	}
	if i, known := seen[phrase]; known {
		b.entries[i].means |= means
		return
	}
	seen[phrase] = len(b.entries)
	b.entries = append(b.entries, e)
	if e.free() {
		b.any = true
		b.leads = append(b.leads, leadOf(e.words[0], false))
	} else { // all of the bucket begin with the same word
		b.leads = append(b.leads, leadOf(e.words[1], true))
	}
	b.seconds[e.second/64] |= 1 << (e.second % 64)
	h := hashKey(k)
	l.first[h/64] |= 1 << (h % 64)
}

// spaced reports letters of a script that has spaces, but joins articles and
// prepositions to words.
func spaced(r rune) bool { return r < 0x700 }

// small reports articles and prepositions, which do not count as a distance
// between two words.
func small(w []byte) bool {
	switch string(w) {
	case "a", "an", "the", "of", "to", "and", "de", "la", "las", "los", "le", "les", "des", "du", "di", "il", "lo", "gli", "delle", "dei", "degli", "della", "del", "da", "das", "dos", "as", "os", "o", "den", "die", "der", "dem", "van", "het", "een", "tes", "vos", "tus", "l", "d", "any", "hereby", "о", "об", "на", "w":
		return true
	}
	return false
}

// spaceless reports scripts in which a phrase may begin anywhere.
func spaceless(r rune) bool {
	return r >= 0x600 && r <= 0x6FF || r >= 0x2E80 && r <= 0xD7A3
}

// wordKey is the key of a whole word.
func wordKey(w []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range w {
		h = (h ^ uint32(c)) * 16777619
	}
	return h | 1
}

// startKey is the key of the first four bytes of a word; phrases that are open
// have as many.
func startKey(w []byte) (k uint32) {
	for i := range min(4, len(w)) {
		k |= uint32(w[i]) << (8 * i)
	}
	return k * 0x9E3779B1 &^ 1
}

func hashKey(k uint32) uint32 { return (k ^ k>>15) * 0x85EBCA6B >> 16 }

// has reports whether a phrase may begin with these first bytes.
func (l *lexicon) has(k uint32) bool {
	h := hashKey(k)
	return l.first[h/64]&(1<<(h%64)) != 0
}

// match returns the length of text that the phrase covers, 0 when it does not
// stand there.
func (e *entry) match(text []byte) int {
	at := 0
	for i, w := range e.words {
		if i > 0 {
			gap := at
			for gap < len(text) && gap-at < 4 && !wordByte(text[gap]) && !hasPrefix(text[gap:], w) {
				gap++
			}
			if gap == at && !e.anywhere && wordByte(w[0]) {
				return 0
			}
			at = gap
		}
		if !hasPrefix(text[at:], w) {
			return 0
		}
		at += len(w)
		if at < len(text) && wordByte(text[at]) && wordByte(w[len(w)-1]) {
			if !e.open[i] {
				return 0
			}
			if !e.anywhere {
				for at < len(text) && wordByte(text[at]) {
					at++
				}
			}
		}
	}
	return at
}

func hasPrefix(text []byte, w string) bool {
	return len(text) >= len(w) && string(text[:len(w)]) == w
}

// wordByte reports bytes of words of a folded text.
func wordByte(c byte) bool { return c >= utf8.RuneSelf || isAlnum(c) }

// maxGlued bounds how far a word of a text without spaces is looked at, in bytes.
const maxGlued = 40

// Positions are counted in half words.
const (
	wordUnits     = 2
	sentenceUnits = 8 // a sentence ends
	lineUnits     = 2
)

// scan walks over a folded text and appends what it finds. With glued set,
// phrases are looked for at every letter, as in a text without spaces.
func (l *lexicon) scan(hits []hit, t []byte, glued bool) []hit {
	var m markup
	at := int32(0)
	var before, before2 []byte
	lineStart := true
	for i := 0; i < len(t); {
		c := t[i]
		if !wordByte(c) {
			if lit := m.punctuation(t, i); lit.n > 0 {
				hits = append(hits, hit{at, at + wordUnits, lit.means, m.flags(), int32(i)})
				if lit.n > 1 {
					at += wordUnits
				}
				i += lit.n
				continue
			}
			switch {
			case c == '\n':
				at += lineUnits
				before, before2, lineStart = nil, nil, true
			case (c == '.' || c == '!' || c == '?' || c == ';') && (i+1 == len(t) || !wordByte(t[i+1])):
				at += sentenceUnits
				before, before2 = nil, nil
			case c == ',' || c == ':' || c == '"' || c == '(':
				before, before2 = nil, nil
			}
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(t[i:])
			if spaceless(r) {
				hits = l.at(hits, t[i:], nil, at, int32(i), true, m.flags())
				i += n
				if !spaced(r) || i >= len(t) || !wordByte(t[i]) {
					at++
				}
				continue
			}
		}
		end := i
		for end < len(t) && wordByte(t[end]) && (!glued || end-i < maxGlued) {
			if t[end] >= 0xD8 {
				if r, _ := utf8.DecodeRune(t[end:]); spaceless(r) {
					break
				}
			}
			end++
		}
		end = max(end, i+1)
		had := len(hits)
		hits = l.at(hits, t[i:], t[i:end], at, int32(i), glued, m.flags())
		if len(hits) > had {
			hits[had].flags |= manner(before, before2)
			if identifier(t, i, end) {
				hits[had].flags |= inCode
			}
		}
		if glued {
			at++
			i++
			continue
		}
		if lineStart && end < len(t) && t[end] == ':' && roles[string(t[i:end])] {
			hits = append(hits, hit{at, at + wordUnits, role, m.flags(), int32(i)})
		}
		before2, before, lineStart = before, t[i:end], false
		if end-i > 5 || !small(t[i:end]) {
			at += wordUnits
		}
		i = end
	}
	return hits
}

// identifier reports whether the word from i to end is part of a name or a call
// of program text.
func identifier(t []byte, i, end int) bool {
	if i > 0 {
		switch c := t[i-1]; {
		case c == '_' || c == '$', c == '@' && (i < 2 || !wordByte(t[i-2])), c == '.' && i > 1 && wordByte(t[i-2]), c == '-' && i > 1 && wordByte(t[i-2]):
			return true
		}
	}
	if end+1 < len(t) {
		switch t[end] {
		case '(', '_':
			return true
		case '.', '-':
			return wordByte(t[end+1])
		case '=':
			return true
		}
	}
	return false
}

// at looks the phrases up that may begin at the start of rest, whose first word
// is given unless it is of a script without spaces.
func (l *lexicon) at(hits []hit, rest, first []byte, at, off int32, inside bool, flags hitFlags) []hit {
	var means concept
	longest := 0
	if first != nil && !inside {
		if k := wordKey(first); l.has(k) {
			l.list(k, rest, first, false, &means, &longest)
		}
	}
	if len(rest) >= 4 {
		if k := startKey(rest); l.has(k) {
			l.list(k, rest, first, inside, &means, &longest)
		}
	}
	if inside && first != nil { // glued: words of any length may begin here
		for n := 5; n <= min(len(first), 16); n++ {
			if k := wordKey(first[:n]); l.has(k) {
				l.list(k, rest, first, true, &means, &longest)
			}
		}
	}
	if means == 0 {
		return hits
	}
	units := int32(bytes.Count(rest[:longest], []byte{' '})+1) * wordUnits
	return append(hits, hit{at, at + units, means, flags, off})
}

// list collects the phrases of one key that stand at the start of rest.
func (l *lexicon) list(k uint32, rest, first []byte, inside bool, means *concept, longest *int) {
	b := l.entries[k]
	if b == nil {
		return
	}
	begins, second := eight(rest), uint64(0)
	if !inside {
		second = eight(rest[nextWord(rest, len(first)):])
		if next := byte(second); !b.any && b.seconds[next/64]&(1<<(next%64)) == 0 {
			return
		}
	}
	for i := range b.leads {
		switch l := &b.leads[i]; {
		case !l.second && begins&l.mask != l.bytes, l.second && !inside && second&l.mask != l.bytes:
			continue
		}
		e := &b.entries[i]
		n := 0
		switch {
		case e.anywhere, !inside:
			n = e.match(rest)
		case len(e.words[0]) >= 5:
			n = e.matchGlued(rest)
		}
		if n > 0 {
			*means |= e.means
			*longest = max(*longest, n)
		}
	}
}

// nextWord returns where the word after the one that ends at i begins, the end of
// the text when there is none nearby.
func nextWord(rest []byte, i int) int {
	for end := min(len(rest), i+4); i < end; i++ {
		if wordByte(rest[i]) {
			return i
		}
	}
	return len(rest)
}

// matchGlued is match for text without spaces.
func (e *entry) matchGlued(text []byte) int {
	at := 0
	for _, w := range e.words {
		if !hasPrefix(text[at:], w) {
			return 0
		}
		at += len(w)
	}
	return at
}

// roles at the start of a line and before a colon pretend to be the frame of a
// conversation.
var roles = map[string]bool{"system": true, "admin": true, "developer": true, "sysadmin": true, "administrator": true, "root": true, "operator": true, "система": true, "systeme": true, "sistema": true, "sistem": true}

// manner tells from the one or two words before a verb whether it is told of
// rather than told to the reader.
func manner(last, lastButOne []byte) hitFlags {
	before, before2 := string(last), string(lastButOne)
	switch before {
	case "not", "never", "don't", "t", "nicht", "nie", "jamais", "pas", "nunca", "no", "non", "niet", "nooit", "nie ", "не", "cannot", "can't", "without":
		if before == "t" && before2 != "don" && before2 != "doesn" && before2 != "didn" && before2 != "won" && before2 != "can" {
			return 0
		}
		return negated | reported
	case "to":
		switch before2 {
		case "you", "want", "need", "have", "instructed", "told", "required", "ordered", "commanded", "free", "is", "are", "like", "allowed", "authorized", "continue", "supposed", "proceed", "going":
			return 0
		}
		return reported
	case "models", "assistants", "chatbots", "llms", "agents", "bots", "systems", "employees",
		"will", "would", "can", "could", "may", "might", "we", "they", "i", "it", "who", "that", "which", "users", "attackers", "people", "often", "she", "he", "also", "by", "of", "shouldn't", "did", "does":
		if before2 == "you" || before == "will" && before2 == "assistant" {
			return 0
		}
		return reported
	}
	return 0
}
