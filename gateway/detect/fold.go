package detect

import (
	"bytes"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folded is a text as the injection rules read it: small letters, no accents,
// look-alikes and compatibility forms as the letters they stand for, nothing
// invisible.
type folded struct {
	text      []byte
	tags      []byte            // what invisible tag characters spell
	invisible int               // other invisible characters between two letters
	alike     int               // words whose letters were mixed from several scripts
	fancy     int               // letters in mathematical, circled and such forms
	in        [utf8.UTFMax]byte // a character, see compat
}

// foldText fills f from text. No character grows by more than a few bytes, and
// the result is bounded by four times the text.
func (f *folded) foldText(text []byte) {
	f.text, f.tags = slices.Grow(f.text[:0], len(text)), f.tags[:0]
	f.invisible, f.alike, f.fancy = 0, 0, 0
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && text[i] < utf8.RuneSelf {
			i++
		}
		n := len(f.text)
		f.text = append(f.text, text[start:i]...)
		for k, c := range f.text[n:] {
			f.text[n+k] = asciiFold[c]
		}
		if i < len(text) {
			i = f.foreign(text, i)
		}
	}
	f.text = likeReal(f.text)
}

// madeUpDomains are the ends of names that are reserved for examples. Those who
// write corpora use them, attackers do not: read as they stand they would be taken
// for a sign of an attack.
var madeUpDomains = []string{".example", ".test", ".invalid"}

// likeReal puts .com in the place of madeUpDomains.
func likeReal(t []byte) []byte {
	n := 0 // bytes that are done, at the front of t
	for i := 0; i < len(t); {
		dot := bytes.IndexByte(t[i:], '.')
		if dot < 0 {
			dot = len(t) - i
		}
		if n += copy(t[n:], t[i:i+dot]); i+dot == len(t) {
			break
		}
		i += dot
		size := 1
		for _, end := range madeUpDomains {
			if hasPrefix(t[i:], end) && i > 0 && wordByte(t[i-1]) && (i+len(end) == len(t) || !wordByte(t[i+len(end)]) && t[i+len(end)] != '(') {
				size = len(end)
				n += copy(t[n:], ".com")
			}
		}
		if size == 1 {
			t[n] = '.'
			n++
		}
		i += size
	}
	return t[:n]
}

// foreign folds the word around the character beyond ASCII at i, and returns
// where to go on.
func (f *folded) foreign(text []byte, i int) int {
	wordAt := len(f.text)
	for wordAt > 0 && class[f.text[wordAt-1]]&letter != 0 {
		wordAt--
	}
	latin, other := wordAt < len(f.text), false
	for i < len(text) {
		if c := text[i]; c < utf8.RuneSelf {
			if class[c]&letter == 0 {
				break
			}
			latin = true
			f.text = append(f.text, lower(c))
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		kind := f.rune(r)
		latin, other = latin || kind == foldedLatin, other || kind == foldedOther
		if kind == foldedBreak || kind == foldedWide {
			break
		}
	}
	if latin && other && f.unmix(wordAt) {
		f.alike++
	}
	return i
}

// asciiFold makes letters small and control characters spaces.
var asciiFold = func() (t [utf8.RuneSelf]byte) {
	for c := range t {
		t[c] = lower(byte(c))
		if c < ' ' && c != '\n' {
			t[c] = ' '
		}
	}
	return t
}()

// What became of a character.
type foldKind uint8

const (
	foldedNothing foldKind = iota
	foldedLatin
	foldedOther // Greek or Cyrillic
	foldedWide  // scripts without look-alikes
	foldedBreak
)

// rune appends the folded form of a character beyond ASCII.
func (f *folded) rune(r rune) foldKind {
	switch {
	case r >= 0xE0020 && r <= 0xE007E:
		f.tags = append(f.tags, byte(r-0xE0000))
		return foldedNothing
	case invisible(r):
		if n := len(f.text); n > 0 && isAlnum(f.text[n-1]) {
			f.invisible++
		}
		return foldedNothing
	case r == utf8.RuneError:
		f.text = append(f.text, ' ')
		return foldedBreak
	case r < 0x250 || r >= 0x1E00 && r < 0x1F00:
		if b := baseLetter(r); b != "" {
			f.text = append(f.text, b...)
			return foldedLatin
		}
	case r >= 0x300 && r <= 0x36F || r >= 0x64B && r <= 0x652 || r == 0x640 || r >= 0x483 && r <= 0x489: // accents, vowel signs
		return foldedNothing
	case r >= 0x370 && r < 0x530:
		if !unicode.IsLetter(r) {
			break
		}
		r = unicode.ToLower(r)
		if r == 'ё' {
			r = 'е'
		}
		f.text = utf8.AppendRune(f.text, r)
		return foldedOther
	case r >= 0x621 && r <= 0x64A:
		switch r {
		case 0x622, 0x623, 0x625:
			r = 0x627
		case 0x649:
			r = 0x64A
		case 0x629:
			r = 0x647
		}
		f.text = utf8.AppendRune(f.text, r)
		return foldedWide
	case r >= 0x3400 && r <= 0x9FFF || r >= 0xAC00 && r <= 0xD7A3 || r >= 0x3041 && r <= 0x30FF:
		f.text = utf8.AppendRune(f.text, r)
		return foldedWide
	case r >= 0x1F130 && r <= 0x1F189: // letters in squares and circles
		f.text = append(f.text, 'a'+byte((r-0x1F130)%32%26))
		f.fancy++
		return foldedLatin
	case r >= 0x1F1E6 && r <= 0x1F1FF:
		f.text = append(f.text, 'a'+byte(r-0x1F1E6))
		f.fancy++
		return foldedLatin
	}
	if c, ok := smallCaps[r]; ok {
		f.text = append(f.text, c)
		f.fancy++
		return foldedLatin
	}
	return f.compat(r)
}

// compat appends what compatibility normalization makes of a character.
func (f *folded) compat(r rune) foldKind {
	kind := foldedBreak
	in := f.in[:utf8.EncodeRune(f.in[:], r)]
	form := norm.NFKD.Properties(in).Decomposition() // of one character there is nothing to put in order
	if form == nil {
		form = in
	}
	for k := 0; k < len(form); {
		x, n := utf8.DecodeRune(form[k:])
		k += n
		switch {
		case x < utf8.RuneSelf && isAlnum(byte(x)):
			f.text = append(f.text, lower(byte(x)))
			f.fancy++
			kind = foldedLatin
		case x < utf8.RuneSelf:
			f.text = append(f.text, byte(x))
		case unicode.Is(unicode.Mn, x):
		case unicode.IsLetter(x):
			f.text = utf8.AppendRune(f.text, unicode.ToLower(x))
			kind = foldedWide
		case x >= 0x201C && x <= 0x201F, x == 0xAB, x == 0xBB, x == 0x300C, x == 0x300D, x == 0x300E, x == 0x300F:
			f.text = append(f.text, '"')
		case x == 0x2018 || x == 0x2019:
			f.text = append(f.text, '\'')
		case x == 0x3002:
			f.text = append(f.text, '.')
		case x == 0x2028 || x == 0x2029:
			f.text = append(f.text, '\n')
		default:
			f.text = append(f.text, ' ')
		}
	}
	return kind
}

// unmix turns the Greek and Cyrillic letters of the word that begins at from
// into the Latin ones they look like, when all of them look like one.
func (f *folded) unmix(from int) bool {
	var out [96]byte
	n := 0
	word := f.text[from:]
	if len(word) > len(out) {
		return false
	}
	for i := 0; i < len(word); {
		if word[i] < utf8.RuneSelf {
			out[n] = word[i]
			i++
		} else {
			r, size := utf8.DecodeRune(word[i:])
			c, ok := lookAlikes[r]
			if !ok {
				return false
			}
			out[n] = c
			i += size
		}
		n++
	}
	f.text = append(f.text[:from], out[:n]...)
	return true
}

// lookAlikes are small Greek and Cyrillic letters by the Latin ones they look like.
var lookAlikes = map[rune]byte{
	'а': 'a', 'в': 'b', 'е': 'e', 'ѕ': 's', 'і': 'i', 'ї': 'i', 'ј': 'j', 'к': 'k', 'м': 'm', 'н': 'h', 'о': 'o', 'р': 'p', 'с': 'c', 'т': 't', 'у': 'y', 'х': 'x', 'ԁ': 'd', 'ԛ': 'q', 'ԝ': 'w', 'һ': 'h', 'ь': 'b', 'г': 'r', 'п': 'n', 'ո': 'n', 'ӏ': 'l', 'є': 'e', 'ѵ': 'v',
	'α': 'a', 'β': 'b', 'γ': 'y', 'ε': 'e', 'η': 'n', 'ι': 'i', 'κ': 'k', 'μ': 'u', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'σ': 'o', 'τ': 't', 'υ': 'u', 'χ': 'x', 'ω': 'w', 'ϲ': 'c', 'ϳ': 'j', 'ё': 'e', 'й': 'n', 'ч': '4', 'з': '3',
}

// smallCaps are letters that compatibility normalization leaves alone.
var smallCaps = func() map[rune]byte {
	m := make(map[rune]byte)
	for i, r := range []rune("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡ_ʏᴢ") {
		m[r] = 'a' + byte(i)
	}
	delete(m, '_')
	m['ǫ'], m['ɡ'], m['ı'], m['ɑ'], m['ⅼ'] = 'q', 'g', 'i', 'a', 'l'
	return m
}()

// latinBases holds the letters without accents of U+00A0 to U+024F and U+1E00 to
// U+1EFF.
var latinBases = sync.OnceValue(func() map[rune]string {
	m := map[rune]string{'ß': "ss", 'ø': "o", 'Ø': "o", 'ł': "l", 'Ł': "l", 'đ': "d", 'Đ': "d", 'ı': "i", 'æ': "ae", 'Æ': "ae", 'œ': "oe", 'Œ': "oe", 'þ': "th", 'Þ': "th", 'ð': "d", 'Ð': "d", 'ǫ': "q"}
	add := func(from, to rune) {
		for r := from; r < to; r++ {
			if _, known := m[r]; known {
				continue
			}
			if d := norm.NFKD.String(string(r)); class[d[0]]&letter != 0 && r > 0xBF {
				m[r] = string(lower(d[0]))
			}
		}
	}
	add(0xC0, 0x250)
	add(0x1E00, 0x1F00)
	return m
})

func baseLetter(r rune) string { return latinBases()[r] }
