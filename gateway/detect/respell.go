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

// inlineTags are the elements that stand inside of words when a word is to be
// hidden; others end words.
var inlineTags = []string{"b>", "i>", "u>", "em>", "strong>", "span", "wbr", "font", "small>", "sub>", "sup>", "mark>", "!--"}

// maxTag bounds a tag inside of a word, in bytes.
const maxTag = 64

// tagOf returns how long the tag or comment is that t begins with, 0 when it is
// none of those that words are hidden with.
func tagOf(t []byte) int {
	if len(t) < 3 || t[0] != '<' {
		return 0
	}
	name := 1
	if t[1] == '/' {
		name = 2
	}
	for _, tag := range inlineTags {
		if !hasPrefix(t[name:], tag) {
			continue
		}
		for i := name; i < min(len(t), maxTag); i++ {
			if t[i] == '>' && (tag != "!--" || i >= name+4 && t[i-1] == '-') {
				return i + 1
			}
		}
	}
	return 0
}

// inWord reports 1 when marks of text that begin at i end before a letter.
func inWord(t []byte, i int) int {
	end := i
	if t[i] == '<' {
		for end < len(t) && t[end] == '<' && end-i < 2*maxTag {
			n := tagOf(t[end:])
			if n == 0 {
				return 0
			}
			end += n
		}
	} else {
		for end < len(t) && end-i < 3 && t[end] == t[i] {
			end++
		}
	}
	if end < len(t) && class[t[end]]&letter != 0 {
		return 1
	}
	return 0
}

// unsplit takes marks of text out: asterisks, tildes and backquotes beside letters,
// and tags that words are hidden with.
func unsplit(t []byte) []byte {
	out := make([]byte, 0, len(t))
	for i := 0; i < len(t); {
		if n := tagOf(t[i:]); n > 0 {
			i += n
			continue
		}
		if t[i] != '*' && t[i] != '~' && t[i] != '`' {
			out = append(out, t[i])
		}
		i++
	}
	return out
}

// maxJoint bounds what stands between two strings to either side of the plus sign.
const maxJoint = 40

// stringJoint returns how many bytes around the plus sign at i join two strings: the
// quotation marks and spaces before and behind it. 0 is none.
func stringJoint(t []byte, i int) int {
	from, to := i-1, i+1
	for from > 0 && (t[from] == ' ' || t[from] == '\n') && i-from < maxJoint {
		from--
	}
	for to < len(t)-1 && (t[to] == ' ' || t[to] == '\n') && to-i < maxJoint {
		to++
	}
	if from < 0 || to >= len(t) || t[from] != t[to] || t[from] != '"' && t[from] != '\'' {
		return 0
	}
	return to - from + 1
}

// unjoin puts strings together that a program puts together: "ig" + "nore".
func unjoin(t []byte) []byte {
	out, joint := make([]byte, 0, len(t)), 0 // where the last joint ended
	for i := 0; i < len(t); {
		if t[i] == '+' && i > joint {
			from := i - 1
			for from > joint && t[from] != '"' && t[from] != '\'' && i-from < maxJoint {
				from--
			}
			if n := stringJoint(t, i); n > 0 && from >= joint {
				out = out[:len(out)-(i-from)]
				i = from + n
				joint = i
				continue
			}
		}
		out = append(out, t[i])
		i++
	}
	return out
}

// minChain is how many words make a chain.
const minChain = 6

// chain follows words that hang together by one sign: ignore.all.previous.rules.
type chain struct {
	sign  byte
	words int
	end   int
}

// add takes the next word of t and reports whether it makes a chain of enough.
func (c *chain) add(t []byte, from, to int) bool {
	if from > 0 && c.end == from-1 && c.words > 0 && linking(t[from-1]) && (c.words == 1 || c.sign == t[from-1]) {
		c.sign = t[from-1]
		c.words++
	} else {
		c.words = 1
	}
	c.end = to
	return c.words >= minChain
}

func linking(c byte) bool {
	return c == '.' || c == '/' || c == '-' || c == '_' || c == '\n' || c == '|'
}

// unchain returns the chains of a text, a line each, with spaces between the words.
func unchain(t []byte) (out []byte) {
	var c chain
	first := 0
	for i := 0; i < len(t); {
		if !isAlnum(t[i]) {
			i++
			continue
		}
		start := i
		for i < len(t) && isAlnum(t[i]) {
			i++
		}
		before, end := c.words, c.end
		if c.add(t, start, i); c.words == 1 {
			out = appendChain(out, t, first, end, before)
			first = start
		}
	}
	return appendChain(out, t, first, c.end, c.words)
}

// appendChain appends the words from first to end when they are enough.
func appendChain(out, t []byte, first, end, words int) []byte {
	if words < minChain {
		return out
	}
	for _, c := range t[first:end] {
		if !isAlnum(c) {
			c = ' '
		}
		out = append(out, c)
	}
	return append(out, '\n')
}
