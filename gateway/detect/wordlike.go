package detect

// A key may be written in letters and digits of one case, as names and words
// are. What tells them apart is which letters stand side by side: in words and
// abbreviations most pairs are usual ones, in a random text two of five.

// usualPairs holds, for each letter from a to z, the letters that often follow it in English
// words and in names of programs.
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

// pairCount counts the pairs of letters in a text, how many of them are usual
// ones without regard to case, and in how many the case changes.
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

// wordlike reports a text that consists of words, names or the alphabet rather
// than of letters drawn by lot. Of few pairs a larger share must be usual. Names
// of words joined by capitals change the case in less than two pairs of five.
func wordlike(text []byte) bool {
	n := pairsOf(text)
	return n.all >= minPairs && n.usual*4 > n.all*3+4 && n.changes*5 < n.all*2
}

// unlikeWords reports a text with many letters of which too few stand together
// as they do in words. It is sure where digits do not help.
func unlikeWords(text []byte) bool {
	n := pairsOf(text)
	return n.all >= 2*minPairs && n.usual*100 < n.all*65
}

// minPairs is the least number of pairs of letters that says something.
const minPairs = 8
