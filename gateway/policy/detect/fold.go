package detect

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folded is the normalized text that the injection rules use: lower case, without
// accents, with look-alikes and compatibility forms replaced by the letters that they
// represent, without invisible characters.
type folded struct {
	text      []byte
	tags      []byte // the ASCII text that invisible tag characters spell
	invisible int    // invisible characters inside of words
	alike     int    // words whose letters were mixed from several scripts
}

// fold fills f from text. No character grows by more than a few bytes.
func (f *folded) fold(text []byte) {
	f.text, f.tags = slices.Grow(f.text[:0], len(text)), f.tags[:0]
	f.invisible, f.alike = 0, 0
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && text[i] < utf8.RuneSelf {
			i++
		}
		f.text = append(f.text, text[start:i]...)
		if i < len(text) {
			i = f.foreign(text, i)
		}
	}
}

// foreign folds the word around the character beyond ASCII at i, and returns the position to
// continue at.
func (f *folded) foreign(text []byte, i int) int {
	wordAt := len(f.text)
	for wordAt > 0 && len(f.text)-wordAt < maxMixed && class[f.text[wordAt-1]]&letter != 0 {
		wordAt--
	}
	latin, other := wordAt < len(f.text), false
	for i < len(text) && (text[i] >= utf8.RuneSelf || class[text[i]]&letter != 0) {
		if text[i] < utf8.RuneSelf {
			latin = true
			f.text = append(f.text, text[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		if f.rune(r) {
			other = true
		}
	}
	if latin && other && f.unmix(wordAt) {
		f.alike++
	}
	return i
}

// rune appends the folded form of a character beyond ASCII, and reports a Greek or Cyrillic letter.
func (f *folded) rune(r rune) (other bool) {
	switch {
	case r >= 0x430 && r <= 0x44F || r >= 0x3041 && r <= 0x30FF || r >= 0x3400 && r <= 0x9FFF || r >= 0xAC00 && r <= 0xD7A3:
		f.text = utf8.AppendRune(f.text, r) // most of Russian, Japanese, Chinese and Korean
		return r <= 0x44F
	case r >= 0xE0020 && r <= 0xE007E:
		f.tags = append(f.tags, byte(r-0xE0000))
		return false
	case invisible(r):
		if n := len(f.text); n > 0 && isAlnum(f.text[n-1]) {
			f.invisible++
		}
		return false
	case r < 0x250:
		if b := latinBases[r]; b != "" {
			f.text = append(f.text, b...)
			return false
		}
	case r == utf8.RuneError:
		f.text = append(f.text, ' ')
		return false
	case r >= 0x300 && r <= 0x36F || r >= 0x483 && r <= 0x489 || r >= 0x64B && r <= 0x652 || r == 0x640: // accents, vowel signs
		return false
	case r >= 0x370 && r < 0x530 && unicode.IsLetter(r):
		if r = unicode.ToLower(r); r == 'ё' {
			r = 'е'
		}
		f.text = utf8.AppendRune(f.text, r)
		return true
	case r >= 0x621 && r <= 0x64A:
		f.text = utf8.AppendRune(f.text, arabicBase(r))
		return false
	case r >= 0x1F130 && r <= 0x1F189: // letters in squares and circles
		f.text = append(f.text, 'a'+byte((r-0x1F130)%32%26))
		return false
	}
	if c, ok := smallCaps[r]; ok && r < 0xA800 {
		f.text = append(f.text, c)
		return false
	}
	f.compat(r)
	return false
}

// arabicBase returns the common form of an Arabic letter with several spellings.
func arabicBase(r rune) rune {
	switch r {
	case 0x622, 0x623, 0x625:
		return 0x627
	case 0x649:
		return 0x64A
	case 0x629:
		return 0x647
	}
	return r
}

// compat appends the compatibility decomposition of a character.
func (f *folded) compat(r rune) {
	switch r {
	case 0x2018, 0x2019:
		f.text = append(f.text, '\'')
		return
	case 0x201C, 0x201D, 0x201E, 0xAB, 0xBB, 0x300C, 0x300D:
		f.text = append(f.text, '"')
		return
	case 0x2028, 0x2029:
		f.text = append(f.text, '\n')
		return
	}
	var in [utf8.UTFMax]byte
	n := utf8.EncodeRune(in[:], r)
	form := norm.NFKD.Properties(in[:n]).Decomposition() // a single character needs no reordering
	if form == nil {
		form = in[:n]
	}
	for len(form) > 0 {
		x, n := utf8.DecodeRune(form)
		form = form[n:]
		switch {
		case x < utf8.RuneSelf:
			f.text = append(f.text, byte(x))
		case unicode.Is(unicode.Mn, x):
		case unicode.IsLetter(x):
			f.text = utf8.AppendRune(f.text, unicode.ToLower(x))
		default:
			f.text = append(f.text, ' ')
		}
	}
}

// maxMixed bounds the words that are checked for letters of several scripts, in bytes.
const maxMixed = 96

// unmix replaces the Greek and Cyrillic letters of the word that begins at from by the Latin
// letters that they look like, if all of them look like one.
func (f *folded) unmix(from int) bool {
	var out [maxMixed]byte
	n, word := 0, f.text[from:]
	if len(word) > len(out) {
		return false
	}
	for i := 0; i < len(word); n++ {
		r, size := utf8.DecodeRune(word[i:])
		i += size
		if r < utf8.RuneSelf {
			out[n] = byte(r)
		} else if out[n] = lookAlikes[r]; out[n] == 0 {
			return false
		}
	}
	f.text = append(f.text[:from], out[:n]...)
	return true
}

// lookAlikes are lower-case Greek and Cyrillic letters, by the Latin letters that they look like.
var lookAlikes = alphabet("авеѕіїјкмнорстухԁԛԝһьгпոӏєѵαβγεηικμνορστυχωϲϳ", "abesiijkmhopctyxdqwhbrnnlevabyenikuvopotuxwcj")

// smallCaps are letters that compatibility normalization does not change.
var smallCaps = alphabet("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢɡɑ", "abcdefghijklmnopqrstuvwyzga")

// alphabet maps the letters of one text to those at the same index of another.
func alphabet(from, to string) map[rune]byte {
	m := make(map[rune]byte, len(to))
	for i, r := range []rune(from) {
		m[r] = to[i]
	}
	return m
}

// latinBases has the letters without accents of U+00C0 to U+024F.
var latinBases = func() (t [0x250]string) {
	for r := rune(0xC0); r < 0x250; r++ {
		if d := norm.NFKD.String(string(r)); class[d[0]]&letter != 0 {
			t[r] = string(lower(d[0]))
		}
	}
	for r, base := range map[rune]string{'ß': "ss", 'ø': "o", 'Ø': "o", 'ł': "l", 'Ł': "l", 'đ': "d", 'Đ': "d", 'ı': "i",
		'æ': "ae", 'Æ': "ae", 'œ': "oe", 'Œ': "oe", 'þ': "th", 'Þ': "th", 'ð': "d", 'Ð': "d"} {
		t[r] = base
	}
	return t
}()
