package detect

import "slices"

// rot13 turns small letters by thirteen.
func rot13(t []byte) []byte {
	out := slices.Clone(t)
	for i, c := range out {
		if c >= 'a' && c <= 'z' {
			out[i] = 'a' + (c-'a'+13)%26
		}
	}
	return out
}

// unleet turns digits and signs in words with letters into the letters they
// stand for; one is what 1 stands for.
func unleet(t []byte, one byte) []byte {
	out := slices.Clone(t)
	for i := 0; i < len(out); {
		start, letters := i, 0
		for i < len(out) && (wordByte(out[i]) || leet(out[i], one) != 0) {
			if class[out[i]]&letter != 0 {
				letters++
			}
			i++
		}
		for k := start; k < i && letters > 0; k++ {
			if c := leet(out[k], one); c != 0 {
				out[k] = c
			}
		}
		if i == start {
			i++
		}
	}
	return out
}

// leet returns the letter that a digit or sign stands for, 0 when there is none.
func leet(c, one byte) byte {
	switch c {
	case '0':
		return 'o'
	case '1', '!', '|':
		return one
	case '3':
		return 'e'
	case '4', '@':
		return 'a'
	case '5', '$':
		return 's'
	case '7', '+':
		return 't'
	case '8':
		return 'b'
	case '9':
		return 'g'
	}
	return 0
}

// spaced joins letters that stand alone (i g n o r e) and examines the result.
// Another sign than the one between the first two, or two of them, ends a word;
// where the words cannot be told apart, phrases are looked for at every letter.
func (e *examination) spaced(t []byte, depth int) {
	joined := make([]byte, 0, len(t))
	runs := 0
	for i := 0; i < len(t); {
		n, end := 0, i
		for k := i; k < len(t) && isAlnum(t[k]) && (k+1 == len(t) || !wordByte(t[k+1])); k += 2 {
			n++
			end = k + 1
			if k+2 >= len(t) || !separatesLetters(t[k+1]) || t[k+1] != t[i+1] {
				break
			}
		}
		if n < 2 || i > 0 && wordByte(t[i-1]) {
			joined = append(joined, t[i])
			i++
			continue
		}
		for k := i; k < end; k += 2 {
			joined = append(joined, t[k])
		}
		runs++
		i = end
	}
	if runs == 0 || len(joined) > e.work {
		return
	}
	e.nested("disguise: spaced letters", 0.3, e.divide(joined), depth)
	e.work -= len(joined)
	before := e.strength.best
	e.hits = words.scan(e.hits[:0], joined, true)
	e.strength.judge(e.hits, 1)
	if e.strength.best != before {
		e.disguise("disguise: spaced letters", 0.3, 1, false)
	}
}

func separatesLetters(c byte) bool {
	return c == ' ' || c == '\n' || c == '.' || c == '-' || c == '_' || c == '*' || c == '|' || c == '/' || c == ','
}

// undash takes dashes and the like out of words.
func undash(t []byte) []byte {
	out := make([]byte, 0, len(t))
	for i, c := range t {
		if (c == '-' || c == '*') && i > 0 && i+1 < len(t) && class[t[i-1]]&letter != 0 && class[t[i+1]]&letter != 0 {
			continue
		}
		out = append(out, c)
	}
	return out
}
