package detect

import (
	"math"
	"unicode/utf8"
)

// Windows: the model looks at the last few tokens of every few tokens, since
// an attack in a long text is a small part of it.
const (
	ringTokens = 64 // longer than the longest window, a power of two
	stride     = 4  // windows end at each so many tokens, and at the end of the text
)

// spans are the lengths of windows, in tokens.
var spans = [...]int{12, 24, 48}

// noWindow is the sum of a text without tokens.
const noWindow = -1 << 20

// damping makes few tokens say less.
const damping = 6

// perToken are the factors by which the sum over a window of so many tokens
// counts.
var perToken = func() (f [ringTokens]float32) {
	for n := range f {
		f[n] = float32(1 / math.Sqrt(float64(n+damping)))
	}
	return f
}()

// window is the stretch of a folded text that the model finds most suspicious.
type window struct {
	sum      float32 // of the weights, in steps of the model, by perToken
	from, to int     // bytes of the folded text
}

// best returns the window of t with the highest sum. hits are what the lexicon
// found in t.
func (r *reader) best(t []byte, hits []hit) window {
	var sums [ringTokens]int32 // before each of the last tokens
	var starts [ringTokens]int32
	top := window{sum: noWindow}
	r.sum, r.token, r.odd = 0, 0, r.odd[:0]
	r.word, r.word2, r.stem, r.stem2, r.marks, r.met, r.opens = 0, 0, 0, 0, 0, 0, true
	r.translation = translation{glossary: theGlossary(), beside: -1}
	sized := func(n, end int) {
		last := 0
		for _, size := range spans {
			size = min(size, n)
			if size == last {
				break
			}
			last = size
			k := (n - size) % ringTokens
			if s := float32(r.sum-sums[k]) * perToken[size]; s > top.sum {
				top = window{s, int(starts[k]), end}
			}
		}
	}
	next := 0
	for i := 0; i < len(t); {
		if t[i] <= ' ' {
			r.opens = r.opens || t[i] == '\n'
			i++
			continue
		}
		k := int(r.token) % ringTokens
		sums[k], starts[k] = r.sum, int32(i)
		start := i
		i = r.next(t, i)
		r.at, r.end = start, i
		if r.collect {
			r.places = append(r.places, [2]int32{int32(start), int32(i)})
		}
		for next < len(hits) && int(hits[next].off) < i {
			r.readMeanings(&hits[next])
			next++
		}
		if r.token++; r.token%stride == 0 {
			sized(int(r.token), i)
		}
	}
	if n := int(r.token); n > 0 && n%stride != 0 {
		sized(n, len(t))
	}
	return top
}

// next reads the token that begins at i and returns where it ends.
func (r *reader) next(t []byte, i int) int {
	start := i
	if !wordByte(t[i]) {
		for i < len(t) && t[i] > ' ' && !wordByte(t[i]) {
			i++
		}
		r.at, r.end = start, i
		r.readMarks(t[start:i], start)
		return i
	}
	for i < len(t) && wordByte(t[i]) {
		if t[i] >= 0xE2 {
			c, n := utf8.DecodeRune(t[i:])
			if wideRune(c) {
				if i > start {
					break
				}
				r.at, r.end = start, i+n
				r.readWide(c, t[start:], start)
				return i + n
			}
		}
		i++
	}
	r.at, r.end = start, i
	r.readWord(t[start:i], start)
	return i
}

// Windows calls yield with the first token and the one after the last of every
// window that the score looks at in a text of n tokens.
func Windows(n int, yield func(from, to int)) {
	for end := 1; end <= n; end++ {
		if end%stride != 0 && end != n {
			continue
		}
		last := 0
		for _, size := range spans {
			if size = min(size, end); size != last {
				yield(end-size, end)
				last = size
			}
		}
	}
}

// WindowFactor is what the sum over a window of n tokens is multiplied by.
func WindowFactor(n int) float64 { return float64(perToken[n]) }
