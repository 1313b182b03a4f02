package detect

import "slices"

// When hardly a word of a text is known, its letters may stand for others, or its
// words may be written backwards.

const (
	minCipherWords   = 4  // unknown words from which a text may be a cipher
	minCipherLetters = 20 // in them
	// cipherGain is how much more usual letters must become, in nats a letter, for
	// an alphabet to be believed.
	cipherGain = 0.45
)

// usualLetters is how usual each letter is in English, as the logarithm of its share.
var usualLetters = [26]float32{
	-2.50, -4.20, -3.58, -3.16, -2.07, -3.81, -3.91, -2.80, -2.66, -6.50, -4.87, -3.22, -3.73,
	-2.70, -2.59, -3.95, -6.96, -2.82, -2.76, -2.40, -3.59, -4.63, -3.74, -6.50, -3.92, -7.13,
}

// ciphered examines a folded text with its letters or words turned, where that makes
// sense of its unknown words odd.
func (e *examination) ciphered(t []byte, odd [][2]int32, depth int) {
	if len(odd) < minCipherWords {
		return
	}
	var counts [26]float32
	letters, words, backwards, doubled := float32(0), 0, 0, 0
	var seen [maxOdd]uint32
	for _, w := range odd {
		seen[words] = hashBytes(string(t[w[0]:w[1]]))
		if slices.Contains(seen[:words], seen[words]) {
			continue
		}
		words++
		h := uint32(2166136261)
		for i := int(w[1]) - 1; i >= int(w[0]); i-- {
			if c := t[i]; c >= 'a' && c <= 'z' {
				counts[c-'a']++
				letters++
			}
			h = (h ^ uint32(t[i])) * 16777619
		}
		if vectorOf(h) != nil {
			backwards++
		}
		twice := 0
		for i := w[0] + 1; i < w[1]; i++ {
			if t[i] == t[i-1] {
				twice++
			}
		}
		if 3*twice >= int(w[1]-w[0]) {
			doubled++
		}
	}
	switch {
	case words < minCipherWords:
	case 2*backwards > words:
		e.nested("disguise: written backwards", 0.4, turnWords(t), depth)
	case 2*doubled > words:
		e.nested("disguise: doubled letters", 0.3, single(nil, t), depth)
	case letters >= minCipherLetters:
		if turned, found := likeliest(&counts, letters); found {
			out := slices.Clone(t)
			for i, c := range out {
				if c >= 'a' && c <= 'z' {
					out[i] = turned[c-'a']
				}
			}
			e.nested("disguise: a cipher", 0.4, out, depth)
		}
	}
}

// likeliest returns what stands for each letter in the alphabet that makes
// the counted letters most usual: turned by some places, or backwards.
func likeliest(counts *[26]float32, letters float32) (alphabet [26]byte, found bool) {
	usual := func(of func(c int) int) (sum float32) {
		for c, n := range counts {
			sum += n * usualLetters[of(c)]
		}
		return sum
	}
	best := usual(func(c int) int { return c }) + cipherGain*letters
	try := func(of func(c int) int) {
		if sum := usual(of); sum > best {
			best, found = sum, true
			for c := range alphabet {
				alphabet[c] = byte('a' + of(c))
			}
		}
	}
	for n := 1; n < 26; n++ {
		try(func(c int) int { return (c + n) % 26 })
	}
	try(func(c int) int { return 25 - c })
	return alphabet, found
}

// turnWords writes each word of small letters backwards.
func turnWords(t []byte) []byte {
	out := slices.Clone(t)
	for i := 0; i < len(out); {
		start := i
		for i < len(out) && out[i] >= 'a' && out[i] <= 'z' {
			i++
		}
		slices.Reverse(out[start:i])
		if i == start {
			i++
		}
	}
	return out
}
