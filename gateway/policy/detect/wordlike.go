package detect

// A key may consist of letters and digits of one case, like names and words. Pairs of adjacent
// letters distinguish them: most pairs in words and abbreviations are usual ones, and two of five
// in random text.

// usualPairs has, for each letter from a to z, the letters that often follow it in English words
// and in names of programs.
var usualPairs = [26]string{
	"bcdgiklmnprstuvwy", "aeijlorsuy", "acehikloprstu", "abdeiorsu",
	"acdefglmnprstvwxy", "aefilortu", "aeghilnorsu", "aeiortu",
	"abcdefglmnoprstvz", "aeosu", "eins", "adefiklopstuvy",
	"abeimopsu", "acdefgiknostuvy", "abcdfgiklmnoprstuvw", "aehiloprstu",
	"lu", "abcdefgiklmnorstuvy", "aceghiklmopqstuwy", "acehiloprstuwy",
	"abcdegilmnprst", "aeio", "aehinorsy", "aceipt",
	"aeilmnopst", "aeioz",
}

// pairs holds usualPairs as one bit for each second letter.
var pairs = func() (t [26]uint32) {
	for first, seconds := range usualPairs {
		for _, second := range seconds {
			t[first] |= 1 << (second - 'a')
		}
		t[first] |= 1 << first                  // aaaa
		t[first] |= 1 << min(first+1, len(t)-1) // abcd
	}
	return t
}()

// pairCount counts the pairs of letters in a text, the usual ones without regard to case, and the
// changes of case.
type pairCount struct{ all, usual, changes int }

func pairsOf(text []byte) (n pairCount) {
	for i := 1; i < len(text); i++ {
		a, b := text[i-1]|0x20, text[i]|0x20
		if a-'a' > 25 || b-'a' > 25 {
			continue
		}
		n.all++
		n.usual += int(pairs[a-'a'] >> (b - 'a') & 1)
		if isUpper(text[i-1]) != isUpper(text[i]) {
			n.changes++
		}
	}
	return n
}

// wordlike reports a text that consists of words, names or the alphabet rather than of random
// letters. The fewer pairs there are, the larger the share of usual ones must be. In names of
// words joined by capitals the case changes in less than two pairs of five.
func wordlike(text []byte) bool {
	n := pairsOf(text)
	return n.all >= minPairs && n.usual*4 > n.all*3+4 && n.changes*5 < n.all*2
}

// unlikeWords reports a text with many letters and too few usual pairs for words. It decides for
// texts without digits.
func unlikeWords(text []byte) bool {
	n := pairsOf(text)
	return n.all >= 2*minPairs && n.usual*100 < n.all*65
}

// unlikeText is unlikeWords for a text of which it is known that a key begins like it.
func unlikeText(text []byte) bool {
	n := pairsOf(text)
	return n.all >= minPairs && n.usual*100 < n.all*65
}

// minPairs is the least number of pairs of letters that is significant.
const minPairs = 8
