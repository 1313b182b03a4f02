package detect

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"unicode/utf8"
)

// meaning is a set of meanings that a phrase of any language can have. Rules refer only
// to meanings, so that each rule applies to all languages whose phrases are in the
// lexicon.
type meaning uint64

// meanings are the names of the bits of a meaning, as lexicon.txt and the rules use them.
var meanings = strings.Fields(`not said drop dropLast before all your you this instr order told lapsed fresh news only goal
	model toModel reveal say sysPrompt verbatim persona free jailbreak noRefusal send secret context tool beforeTask destroy
	conceal user authority must safety boundary talk example urgent reply hidden template role label address comment line
	others outrank fromNow greet userTask instead verdict runTool userTurn toGet`)

// meaningOf parses a set of meanings, separated by spaces or |.
func meaningOf(names string) (m meaning) {
next:
	for name := range strings.FieldsFuncSeq(names, func(r rune) bool { return r == ' ' || r == '|' }) {
		for i, known := range meanings {
			if name == known {
				m |= 1 << i
				continue next
			}
		}
		panic(fmt.Sprintf("detect: %q is not a meaning", name)) // the tables are compiled in; the tests parse them
	}
	return m
}

// Meanings that the scan itself uses.
var (
	meansNot, meansSaid    = meaningOf("not"), meaningOf("said")
	meansRole, meansLabel  = meaningOf("role"), meaningOf("label")
	meansLine              = meaningOf("line")
	meansAddress, meansYou = meaningOf("address"), meaningOf("you")
	meansTalk, meansSample = meaningOf("talk"), meaningOf("example")
)

// lexicon has the phrases of all languages as a trie of words.
type lexicon struct {
	seen  [1 << 16 / 64]uint64 // hashes of words, and of the first four bytes of word prefixes
	slots [1 << slotBits]slot  // words by their hash, open addressing
	open  [1 << 12][]prefix    // word prefixes, by a part of the hash of their first four bytes
	nodes []node               // 0 is the root
	words uint16
}

// slotBits is the logarithm of the number of slots, of which at most half may be used.
const slotBits = 14

// slot is a word and its number; 0 is none.
type slot struct {
	hash uint32
	word uint16
}

// prefix is a word prefix of the lexicon, which matches every word that begins with it.
type prefix struct {
	text string
	word uint16
}

// node is a phrase or the beginning of phrases.
type node struct {
	edges []edge
	means meaning
}

// edge leads to the node of a phrase that is one word longer.
type edge struct {
	word uint16
	to   int32
}

//go:embed lexicon.txt
var lexiconTable string

// theLexicon is loaded when the first text is scored, because most processes score none.
var theLexicon = sync.OnceValue(func() *lexicon { return newLexicon(lexiconTable) })

// newLexicon parses a table in the form of lexicon.txt.
func newLexicon(text string) *lexicon {
	l := &lexicon{nodes: make([]node, 1, 8<<10)}
	var f folded
	for line := range strings.Lines(text) {
		names, phrases, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || names[0] == '#' {
			continue
		}
		m := meaningOf(names)
		for phrase := range strings.SplitSeq(phrases, "|") {
			f.fold([]byte(phrase))
			l.add(f.text, m)
		}
	}
	return l
}

// add adds one folded phrase to the trie.
func (l *lexicon) add(phrase []byte, m meaning) {
	at := int32(0)
	for i := 0; i < len(phrase); {
		if !wordByte(phrase[i]) {
			i++
			continue
		}
		i += article(phrase[i:])
		hash, end := hashWord(phrase, i)
		word := uint16(0)
		if end < len(phrase) && phrase[end] == '*' {
			word = l.openWord(phrase[i:end])
		} else {
			word = l.word(hash)
		}
		at = l.child(at, word)
		i = end
	}
	if at > 0 {
		l.nodes[at].means |= m
	}
}

// word returns the number of a whole word, and adds it if it is new.
func (l *lexicon) word(hash uint32) uint16 {
	at := l.slot(hash)
	if l.slots[at].word == 0 {
		l.words++
		l.slots[at] = slot{hash, l.words}
		l.mark(hash)
	}
	return l.slots[at].word
}

// slot returns the slot of a hash, or the empty one for it.
func (l *lexicon) slot(hash uint32) uint32 {
	at := hash % (1 << slotBits)
	for l.slots[at].word != 0 && l.slots[at].hash != hash {
		at = (at + 1) % (1 << slotBits)
	}
	return at
}

// minOpen is the length of the shortest word prefix, in bytes.
const minOpen = 4

// openWord returns the number of a word prefix, and adds it if it is new.
func (l *lexicon) openWord(text []byte) uint16 {
	if len(text) < minOpen {
		panic(fmt.Sprintf("detect: the prefix %q is too short", text))
	}
	key := startOf(text)
	for _, p := range l.open[key>>20] {
		if p.text == string(text) {
			return p.word
		}
	}
	l.words++
	l.open[key>>20] = append(l.open[key>>20], prefix{string(text), l.words})
	l.mark(key)
	return l.words
}

// child returns the node that a word leads to from another one, and adds it if it is new.
func (l *lexicon) child(at int32, word uint16) int32 {
	if to := l.next(at, word); to > 0 {
		return to
	}
	to := int32(len(l.nodes))
	l.nodes = append(l.nodes, node{})
	if at == 0 { // words are numbered from 1; the root is indexed by them
		for len(l.nodes[0].edges) <= int(word) {
			l.nodes[0].edges = append(l.nodes[0].edges, edge{})
		}
		l.nodes[0].edges[word] = edge{word, to}
	} else {
		l.nodes[at].edges = append(l.nodes[at].edges, edge{word, to})
	}
	return to
}

// next returns the node that a word leads to, 0 when there is none.
func (l *lexicon) next(at int32, word uint16) int32 {
	edges := l.nodes[at].edges
	if at == 0 {
		if int(word) < len(edges) {
			return edges[word].to
		}
		return 0
	}
	for _, e := range edges {
		if e.word == word {
			return e.to
		}
	}
	return 0
}

func (l *lexicon) mark(hash uint32) { l.seen[hash>>22] |= 1 << (hash >> 16 & 63) }

func (l *lexicon) marked(hash uint32) bool { return l.seen[hash>>22]&(1<<(hash>>16&63)) != 0 }

// lookup writes the numbers of the entries that match the word w with a hash into ids, and
// returns how many there are.
func (l *lexicon) lookup(ids *[4]uint16, w []byte, hash uint32) (n int) {
	if l.marked(hash) {
		if s := l.slots[l.slot(hash)]; s.word != 0 {
			ids[0], n = s.word, 1
		}
	}
	if len(w) < minOpen {
		return n
	}
	key := startOf(w)
	if !l.marked(key) {
		return n
	}
	for _, p := range l.open[key>>20] {
		if n < len(ids) && startsWith(w, p.text) {
			ids[n] = p.word
			n++
		}
	}
	return n
}

// startsWith reports whether the lower-case form of w begins with a text.
func startsWith(w []byte, text string) bool {
	if len(w) < len(text) {
		return false
	}
	for i := range len(text) {
		if small[w[i]] != text[i] {
			return false
		}
	}
	return true
}

// hashWord returns the hash of the word that begins at i, in lower case, and its end. A character
// of a script without spaces is a word by itself.
func hashWord(t []byte, i int) (hash uint32, end int) {
	if t[i] >= 0xE0 {
		if r, n := utf8.DecodeRune(t[i:]); spaceless(r) {
			return mix(uint32(r) * 16777619), i + n
		}
	}
	end = i
	for end+8 <= len(t) {
		other := notWord(binary.LittleEndian.Uint64(t[end:]))
		if other != 0 {
			end += bits.TrailingZeros64(other) / 8
			break
		}
		end += 8
	}
	for ; end < len(t) && wordClass[t[end]] != 0; end++ {
		if wordClass[t[end]] > 1 {
			if r, _ := utf8.DecodeRune(t[end:]); spaceless(r) {
				break
			}
		}
	}
	h := uint64(0x9E3779B97F4A7C15)
	for ; i < end; i += 8 {
		var x uint64
		if i+8 <= len(t) {
			x = binary.LittleEndian.Uint64(t[i:])
		} else {
			for k, c := range t[i:] {
				x |= uint64(c) << (8 * k)
			}
		}
		if end-i < 8 {
			x &= 1<<(8*(end-i)) - 1
		}
		h = (h ^ smallEach(x)) * 0xFF51AFD7ED558CCD
		h ^= h >> 32
	}
	return mix(uint32(h)), end
}

const (
	eachByte = 0x0101010101010101
	topBits  = 0x80 * eachByte
)

// notWord sets the top bit of each of eight bytes that is no ASCII letter, digit or underscore.
func notWord(x uint64) uint64 {
	low := x &^ topBits
	// Adding to seven bits sets the top bit of a byte that has at least a value.
	letters := low | 0x20*eachByte
	is := (letters + (0x80-'a')*eachByte) &^ (letters + (0x80-'z'-1)*eachByte)
	is |= (low + (0x80-'0')*eachByte) &^ (low + (0x80-'9'-1)*eachByte)
	is |= ^(low ^ '_'*eachByte + 0x7F*eachByte)
	return ^is&topBits | x&topBits
}

// smallEach sets the bit of eight bytes by which small letters differ from capital ones, except
// of bytes beyond ASCII. No two different words in lower case become equal: of the other bytes of
// words, digits have the bit, and the underscore becomes a byte that is in no word.
func smallEach(x uint64) uint64 { return x | (^x&topBits)>>2 }

// mix spreads the bits of a hash.
func mix(h uint32) uint32 {
	h ^= h >> 15
	return h * 0x85EBCA6B
}

// startOf returns the hash of the first four bytes of a word.
func startOf(w []byte) uint32 {
	return mix(uint32(smallEach(uint64(binary.LittleEndian.Uint32(w)))) * 0x9E3779B1)
}

// spaceless reports scripts without spaces, and Korean syllables, to which particles are joined.
func spaceless(r rune) bool { return r >= 0x2E80 && r <= 0xD7A3 }

// wordByte reports bytes of words of a folded text.
func wordByte(c byte) bool { return wordClass[c] != 0 }

// wordClass is 1 for bytes of words, 2 for those that may begin a character of a script without
// spaces.
var wordClass = func() (t [256]byte) {
	for c := range t {
		if c >= utf8.RuneSelf || isAlnum(byte(c)) {
			t[c] = 1
		}
		if c >= 0xE2 && c <= 0xED {
			t[c] = 2
		}
	}
	t['_'] = 1
	return t
}()

// small converts ASCII letters to lower case.
var small = func() (t [256]byte) {
	for c := range t {
		t[c] = lower(byte(c))
	}
	return t
}()

// article returns the length of the Arabic article, and of the particles joined to it, at the
// start of a word.
func article(t []byte) int {
	if t[0] != 0xD8 && t[0] != 0xD9 {
		return 0
	}
	for _, joined := range [...]string{"وال", "بال", "ال", "لل"} {
		if len(t) > len(joined)+4 && string(t[:len(joined)]) == joined && wordByte(t[len(joined)]) {
			return len(joined)
		}
	}
	return 0
}
