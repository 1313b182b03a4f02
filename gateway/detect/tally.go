package detect

// tally counts what makes decoding worth while.
type tally struct {
	long     int // runs of base64 or hexadecimal long enough to say something
	percent  int
	entities int
	escapes  int
	mixed    bool // many words of letters and digits near each other
	singles  bool // letters that stand alone in a row
	dashed   bool // many dashes inside of words near each other
	glued    bool // a run of letters too long for a word
	codes    bool // many small numbers in a row
	split    int  // marks of text inside of words
	parts    int  // strings that are put together
	chained  bool // words with the same sign and nothing else between them
}

// nearWords is how many words count as near each other.
const nearWords = 10

// count tallies a text in one walk.
func count(t []byte) (n tally) {
	words, mixed, singles, dashed, numbers := 0, 0, 0, 0, 0
	var links chain
	for i := 0; i < len(t); {
		c := t[i]
		if !isAlnum(c) {
			switch c {
			case '%':
				if i+2 < len(t) && isHex(t[i+1]) && isHex(t[i+2]) {
					n.percent++
				}
			case '&':
				if i+3 < len(t) && (t[i+1] == '#' || class[t[i+1]]&letter != 0) {
					n.entities++
				}
			case '\\':
				if i+3 < len(t) && (t[i+1] == 'u' || t[i+1] == 'x' || t[i+1] == 'U' || octal(t[i:])) {
					n.escapes++
				}
			case '=':
				if i+3 < len(t) && t[i+3] == '=' && isHex(t[i+1]) && isHex(t[i+2]) {
					n.escapes++
				}
			case '+':
				if i > 1 && i+2 < len(t) && stringJoint(t, i) > 0 {
					n.parts++
				}
			case '<', '`', '~':
				if i > 0 && class[t[i-1]]&letter != 0 {
					n.split += inWord(t, i)
				}
			case '-', '*':
				if c == '*' && i > 0 && class[t[i-1]]&letter != 0 {
					n.split += inWord(t, i)
				}
				if i > 0 && i+1 < len(t) && class[t[i-1]]&letter != 0 && class[t[i+1]]&letter != 0 {
					dashed++
				}
			}
			i++
			continue
		}
		start := i
		var flags byte
		marks := 0
		for i < len(t) {
			k := class[t[i]]
			if k&(letter|digit) == 0 {
				if !marked(t, i) {
					break
				}
				marks++
			}
			flags |= k
			i++
		}
		size := i - start
		if flags == digit && (size <= 4 || size == 8) || size <= 6 && flags&digit != 0 && i-start > 2 && t[start] == '0' && lower(t[start+1]) == 'x' {
			numbers++
			n.codes = n.codes || numbers == minCodes
		} else {
			numbers = 0
		}
		if start > 0 && links.end == start-1 && linking(t[start-1]) {
			n.chained = links.add(t, start, i) || n.chained
		} else {
			links.end, links.words = i, 1
		}
		n.glued = n.glued || flags == letter && size >= minGlued && marks == 0
		if size != 1 || flags != letter {
			n.singles, singles = n.singles || singles >= 6, 0
		}
		switch {
		case size == 1 && flags == letter:
			singles++
		case size >= minBase64 && (flags&digit != 0 || size >= 32 || i < len(t) && t[i] == '='):
			n.long++
		case size == 2 && flags&digit != 0 && isHex(t[start]) && isHex(t[i-1]):
			n.long += pair(t, start)
		case flags&letter != 0 && (flags&digit != 0 || marks > 0) && size <= 24 && leetWord(t[start:i]):
			mixed++
		}
		if words++; words == nearWords {
			n.mixed, n.dashed = n.mixed || mixed >= 2, n.dashed || dashed >= 4
			words, mixed, dashed = 0, mixed/2, dashed/2
		}
	}
	n.mixed, n.singles, n.dashed = n.mixed || mixed >= 2, n.singles || singles >= 6, n.dashed || dashed >= 4
	return n
}

// leetWord reports a word whose digits and signs may stand for letters: one of
// them between letters or in front of one, and none that never does. Numbers
// with a unit, versions and hexadecimal are none.
func leetWord(w []byte) bool {
	hexOnly, inside := true, false
	for i, c := range w {
		hexOnly = hexOnly && isHex(c)
		if class[c]&letter != 0 {
			continue
		}
		if c == '2' || c == '6' || leet(c, 'i') == 0 {
			return false
		}
		inside = inside || i > 0 && i+1 < len(w) && class[w[i-1]]&letter != 0 && class[w[i+1]]&letter != 0 || i == 0 && len(w) > 1
	}
	return inside && (!hexOnly || len(w) < 4)
}

// pair reports 1 when bytes in hexadecimal begin at i: 49 67 6e 6f.
func pair(t []byte, i int) int {
	for k := range 8 {
		at := i + 3*k
		if at+1 >= len(t) || !isHex(t[at]) || !isHex(t[at+1]) || at+2 < len(t) && t[at+2] != ' ' && t[at+2] != ':' && t[at+2] != ',' {
			return 0
		}
	}
	return 1
}

// marked reports signs that stand for letters inside of a word.
func marked(t []byte, i int) bool {
	return (t[i] == '@' || t[i] == '$' || t[i] == '!' || t[i] == '|') && i+1 < len(t) && i > 0 && isAlnum(t[i+1]) && isAlnum(t[i-1])
}
