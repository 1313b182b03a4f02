package detect

import (
	"strings"
	"unicode/utf8"
)

// senseWord is what begins with some bytes: senses of the word that they are, of
// all that begin so, and of a word in a script without spaces.
type senseWord struct{ whole, start, wide uint64 }

// senseIndex finds the words of senses by the hash of their bytes.
type senseIndex struct {
	may   [1 << 15 / 64]uint64 // hashes of words and beginnings, to pass most by
	words map[uint32]senseWord
}

const (
	maxSense = 20 // bytes of the longest beginning
)

// senseWords is the index of senses.
var senseWords = func() *senseIndex {
	x := &senseIndex{words: make(map[uint32]senseWord)}
	var f folded
	for k, list := range senses {
		f.foldText([]byte(list))
		for w := range strings.FieldsSeq(string(f.text)) {
			word, open := strings.CutSuffix(w, "*")
			if word == "" {
				continue
			}
			h := hashBytes(word)
			x.may[h%(1<<15)/64] |= 1 << (h % 64)
			known := x.words[h]
			r, _ := utf8.DecodeRuneInString(word)
			switch {
			case wideRune(r):
				known.wide |= 1 << k
			case open || hangul(r): // particles follow
				known.start |= 1 << k
			default:
				known.whole |= 1 << k
			}
			x.words[h] = known
		}
	}
	return x
}()

// has reports whether a word of a sense may have the hash.
func (x *senseIndex) has(h uint32) bool { return x.may[h%(1<<15)/64]&(1<<(h%64)) != 0 }

// hashBytes is the hash of words, digits left as they are.
func hashBytes(w string) uint32 {
	h := uint32(2166136261)
	for i := range len(w) {
		h = (h ^ uint32(w[i])) * 16777619
	}
	return h
}

// of returns the senses of a word.
func (x *senseIndex) of(w []byte) (found uint64) {
	h := uint32(2166136261)
	for i, c := range w[:min(len(w), maxSense)] {
		h = (h ^ uint32(c)) * 16777619
		if x.has(h) {
			known := x.words[h]
			found |= known.start
			if i+1 == len(w) {
				found |= known.whole
			}
		}
	}
	return found
}

// at returns the senses of the words that begin a text of a script without
// spaces.
func (x *senseIndex) at(t []byte) (found uint64) {
	h := uint32(2166136261)
	for i, c := range t[:min(len(t), maxWide)] {
		h = (h ^ uint32(c)) * 16777619
		if (i+1 == len(t) || utf8.RuneStart(t[i+1])) && x.has(h) {
			found |= x.words[h].wide
		}
	}
	return found
}
