package detect

import "unicode/utf8"

// translation is the part of a reader that reads words of other languages as what
// they mean in English: the terms of that are counted beside those of the words as
// they stand, so that what English texts taught holds for others too.
type translation struct {
	glossary *glossary
	speech   speech
	english  int   // English words that speech has not heard yet, far from foreign ones
	heard    int   // and near them
	foreign  int   // how many more English words are looked up
	beside   int32 // the last token that stands beside a translated one
	until    int   // where the word of a script without spaces ends

	word, stem, stem2       uint32 // the words before, see reader
	wordAt, stemAt, stem2At int32
	wordNew, stemNew        bool // whether they were translated
	stem2New                bool
}

const (
	foreignWords = 8  // so many words behind one of another language are looked up, though English has them
	besideWords  = 3  // terms reach as far
	englishHeard = 16 // more English words before a foreign one say no more
)

// translateWord reads the word w, which begins at from. Words that are
// English are only looked up near words of other languages; others hold digits, or
// are too long, and have no meaning.
func (r *reader) translateWord(w []byte, h, stem uint32, small, english, plain bool, from int) {
	t := &r.translation
	far := r.token > t.beside
	if english && t.foreign == 0 {
		if t.english++; far {
			return
		}
		plain = false
	} else if !plain && far {
		return
	}
	var m meant
	if plain {
		m = t.glossary.of(w)
		if english {
			m.tongues |= inEnglish
			t.foreign--
		} else if m.n > 0 {
			t.foreign = foreignWords
		}
		if m.tongues == inEnglish {
			t.heard++
		} else {
			r.listen(m.tongues)
		}
		if m.n == 0 && far {
			return
		}
	}
	r.translated(&m, h, stem, small, from)
}

// listen counts which languages have the next word, and the English words before.
func (r *reader) listen(in tongueSet) {
	t := &r.translation
	if in == 0 {
		return
	}
	t.speech.hearEnglish(t.heard + min(t.english, englishHeard))
	t.english, t.heard = 0, 0
	t.speech.hear(in)
}

// translateWide reads the word of a script without spaces that rest begins with,
// unless the word before goes on. h stands for its first character.
func (r *reader) translateWide(rest []byte, h uint32, from int) {
	t := &r.translation
	if from < t.until {
		return
	}
	m, size := t.glossary.at(rest)
	r.listen(m.tongues)
	if size > 0 {
		t.until = from + size
		r.end = t.until
	}
	r.translated(&m, h, h, false, from)
	if size > 0 && t.wordNew {
		t.beside += int32(utf8.RuneCount(rest[:size])) - 1
	}
}

// translated counts the terms of the English word that a word stands for, m being
// what it means, or those that the word itself makes with a translated one before it.
func (r *reader) translated(m *meant, h, stem uint32, small bool, from int) {
	t := &r.translation
	n, fresh := m.headIn(t.speech.loudest(m.tongues))
	if fresh {
		head := &t.glossary.heads[n]
		fresh = head.word != h // else English spells it the same
		h, stem, small = head.word, head.stem, head.small
	}
	near := r.token <= t.beside
	switch {
	case fresh && !near: // those before were not translated
		t.word, t.stem, t.stem2 = r.word, r.stem, r.stem2
		t.wordAt, t.stemAt, t.stem2At = r.wordAt, r.stemAt, r.stem2At
		t.wordNew, t.stemNew, t.stem2New = false, false, false
	case !near:
		return
	}
	if fresh {
		t.beside = r.token + besideWords
		if stem != h {
			r.add(join(termStem, stem), valueWord, from)
		}
		r.add(join(termWord, h), valueWord, from)
		if r.marks != 0 {
			r.add(join(join(termMarked, r.marks), h), valueWord, int(r.marksAt))
		}
	}
	if t.word != 0 && (fresh || t.wordNew) {
		r.add(join(join(termPair, t.word), h), valueWord, int(t.wordAt))
	}
	t.word, t.wordAt, t.wordNew = h, int32(from), fresh
	if small {
		return
	}
	if t.stem != 0 && (fresh || t.stemNew) {
		r.add(join(join(termNear, t.stem), stem), valueWord, int(t.stemAt))
	}
	if t.stem2 != 0 && (fresh || t.stem2New) {
		r.add(join(join(termSkip, t.stem2), stem), valueWord, int(t.stem2At))
	}
	t.stem2, t.stem2At, t.stem2New = t.stem, t.stemAt, t.stemNew
	t.stem, t.stemAt, t.stemNew = stem, int32(from), fresh
}
