package detect

import (
	"bytes"
	"strings"
	"sync"
)

// Words that are not known may be words of attacks, misspelt so that a filter does
// not know them and a model still does: scrambled inside, with a letter too many or
// too few, doubled letters, no vowels.

// targets are the words that are looked for behind such spellings.
var targets = strings.Fields(`access account address admin administrator agent answer approve assistant attacker authorized before bypass
	change command comply confidential content conversation credentials database delete demand developer directive disable disclose discard disregard
	document email everything execute exfiltrate filter folder follow forget forward guidelines hidden history ignore immediately important
	instead instruction instructions internal jailbreak judgement leak limits message mode never obey original output override password
	permission persona policy pretend previous print prior private prompt protocol purchase refund refuse remember remove repeat response restriction
	restrictions reveal rules safety secret secrets security send sensitive share silently story summary system tell token tokens transfer transmit
	unlimited unrestricted update upload user users verbatim verify warning without above earlier following message payment wallet`)

// maxOdd is how many unknown words of a text are looked at.
const maxOdd = 64

// spellings finds the key word behind a spelling.
type spellings struct {
	scrambled map[uint32]string // by first and last letter and those between, in any order
	dropped   map[uint32]string // by the word, whole or with a letter less
	skeleton  map[uint32]string // by the first letter and the consonants
	single    map[uint32]string // by the word with each letter once where it is doubled
}

var keySpellings = sync.OnceValue(func() *spellings {
	s := &spellings{map[uint32]string{}, map[uint32]string{}, map[uint32]string{}, map[uint32]string{}}
	for _, w := range targets {
		b := []byte(w)
		if len(w) >= 4 {
			s.scrambled[scrambledHash(b)] = w
		}
		if len(w) >= 5 {
			s.dropped[hashBytes(w)] = w
			for i := range b {
				s.dropped[without(b, i)] = w
			}
		}
		if k := skeleton(b); len(k) >= 4 {
			s.skeleton[hashBytes(string(k))] = w
		}
		s.single[hashBytes(string(single(nil, b)))] = w
	}
	return s
})

// knownWords has a bit for the hash of every word with a vector, so that most
// words are told to be known at the cost of one look.
var knownWords = sync.OnceValue(func() *[1 << 15]uint32 {
	bits := new([1 << 15]uint32)
	for _, h := range vectorHashes() {
		bits[h>>17] |= 1 << (h >> 12 & 31)
	}
	return bits
})

// of returns the key word that w may be meant to be, "" when there is none.
func (s *spellings) of(w []byte) string {
	if len(w) > 2*longestKey {
		return ""
	}
	if len(w) <= longestKey {
		if key := s.scrambled[scrambledHash(w)]; len(key) == len(w) {
			return key
		}
		if key := s.skeleton[hashBytes(string(w))]; key != "" && !bytes.ContainsAny(w[1:], "aeiou") {
			return key
		}
		if len(w) >= 5 {
			if key := s.dropped[hashBytes(string(w))]; key != "" { // a letter is missing
				return key
			}
			for i := range w { // one too many, or another one
				if key := s.dropped[without(w, i)]; key != "" {
					return key
				}
			}
		}
	}
	var once [2 * longestKey]byte
	if k := single(once[:0], w); len(k)+2 <= len(w) {
		return s.single[hashBytes(string(k))]
	}
	return ""
}

// scrambledHash is the same for all orders of the letters inside of a word.
func scrambledHash(w []byte) uint32 {
	inside := uint32(0)
	for _, c := range w[1 : len(w)-1] {
		inside += (uint32(c)*0x9E3779B1 ^ 0x85EBCA6B) * 0xC2B2AE35
	}
	return join(join(uint32(len(w)), inside), uint32(w[0])<<8|uint32(w[len(w)-1]))
}

// without is the hash of w without its letter i.
func without(w []byte, i int) uint32 {
	h := uint32(2166136261)
	for k, c := range w {
		if k != i {
			h = (h ^ uint32(c)) * 16777619
		}
	}
	return h
}

// skeleton returns the first letter of w and its consonants.
func skeleton(w []byte) (k []byte) {
	for i, c := range w {
		if i == 0 || !strings.ContainsRune("aeiou", rune(c)) {
			k = append(k, c)
		}
	}
	return k
}

// single appends to once w with each letter once where it stands twice in a row.
func single(once, w []byte) []byte {
	for i, c := range w {
		if i == 0 || w[i-1] != c {
			once = append(once, c)
		}
	}
	return once
}

// misspelt examines a text with the key words in the place of misspelt ones, when
// there are several. odd are the words that are not known.
func (e *examination) misspelt(t []byte, odd [][2]int32, depth int) {
	s := keySpellings()
	var out []byte
	at, found := 0, 0
	for _, w := range odd {
		key := s.of(t[w[0]:w[1]])
		if key == "" || key == string(t[w[0]:w[1]]) {
			continue
		}
		out = append(append(out, t[at:w[0]]...), key...)
		at = int(w[1])
		found++
	}
	if found >= 2 {
		e.nested("disguise: misspelt words", 0.2, append(out, t[at:]...), depth)
	}
}
