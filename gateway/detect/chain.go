package detect

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
