package detect

// tongues are the languages of the glossary. English is number 0, the first of
// these 1. Of two that say the same the first one counts: Chinese before Japanese,
// which nearly always has letters of its own.
var tongues = [...]string{"ar", "de", "es", "fr", "it", "ko", "nl", "pl", "pt", "ru", "tr", "zh", "ja"}

// tongueSet is a set of languages by their numbers.
type tongueSet uint16

// inEnglish are the words that have a vector of their own and are of no other language
// alone.
const inEnglish tongueSet = 1

// speech is how much the last words of a text spoke for each language: many a word is
// spelled alike in several, and means what it does in that of its neighbours.
type speech [len(tongues) + 1]uint16

// Each word counts voice, and what was counted before loses a part.
const (
	voice     = 64
	voiceFade = 3 // an eighth
)

// hear counts a word that these languages have.
func (s *speech) hear(in tongueSet) {
	for i := range s {
		s[i] -= s[i] >> voiceFade
		s[i] += uint16(in>>i&1) * voice
	}
}

// hearEnglish counts n words that English alone has.
func (s *speech) hearEnglish(n int) {
	for range n {
		s[0] += voice - s[0]>>voiceFade
	}
	for i := range s[1:] {
		v := s[1+i]
		for k := n; k > 0 && v>>voiceFade > 0; k-- {
			v -= v >> voiceFade
		}
		s[1+i] = v
	}
}

// loudest returns which of the languages was heard most.
func (s *speech) loudest(in tongueSet) (best uint8) {
	most := uint16(0)
	for i := range s {
		if in>>i&1 != 0 && s[i] > most {
			best, most = uint8(i), s[i]
		}
	}
	return best
}

// aroundWords is how many tokens to each side say which language a word of a
// close reading is of.
const aroundWords = 8

// settle gives tokens the vectors of what their words mean in the language that
// most words around them are of. Among words of another language one that means
// nothing there has none: what it means in English would mislead.
func settle(tokens []CloseToken, g *glossary) {
	var votes [len(tongues) + 1]int
	count := func(k, by int) {
		if k >= 0 && k < len(tokens) {
			for i := range votes {
				votes[i] += by * int(tokens[k].meant.tongues>>i&1)
			}
		}
	}
	for k := range aroundWords {
		count(k, 1)
	}
	for k := range tokens {
		count(k+aroundWords, 1)
		count(k-aroundWords-1, -1)
		t := &tokens[k]
		best, most, any := 0, 0, 0
		for i, v := range votes {
			any = max(any, v)
			if t.meant.tongues>>i&1 != 0 && v > most {
				best, most = i, v
			}
		}
		switch head, known := t.meant.headIn(uint8(best)); {
		case known:
			t.Vector = vectorOf(g.heads[head].word)
		case t.meant.tongues == inEnglish && any > 2*votes[0]:
			t.Vector = nil
			t.mark(markUnknown)
		}
	}
}
