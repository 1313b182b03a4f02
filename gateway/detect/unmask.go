package detect

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"slices"
	"strconv"
	"unicode/utf8"
)

// unmask examines what a text holds in encodings.
//
// odd are the words of the folded text that are not known.
func (e *examination) unmask(text []byte, f *folded, odd [][2]int32, depth int, turned, backwards bool) {
	marks := count(text)
	if marks.long > 0 {
		e.encodedRuns(text, depth)
	}
	if marks.percent >= 4 || marks.entities >= 3 || marks.escapes >= 3 {
		if plain := unescape(text); len(plain) < len(text) {
			e.nested("disguise: escaped characters", 0.2, plain, depth)
		}
	}
	if marks.codes {
		e.numbered(text, depth)
	}
	if marks.parts >= 2 {
		e.nested("disguise: a text in parts", 0.2, unjoin(text), depth)
	}
	if depth > 1 {
		return
	}
	if len(odd) >= 2 {
		e.misspelt(f.text, odd, depth)
		e.ciphered(f.text, odd, depth)
	}
	if marks.chained {
		e.nested("disguise: words in a chain", 0.2, unchain(f.text), depth)
	}
	if marks.glued {
		if plain := e.divide(f.text); len(plain) > len(f.text) {
			e.nested("disguise: words without spaces", 0.2, plain, depth)
		}
	}
	if marks.split >= 3 {
		e.nested("disguise: divided words", 0.2, unsplit(f.text), depth)
	}
	if turned {
		e.nested("disguise: rot13", 0.4, rot13(f.text), depth)
	}
	if backwards {
		back := []byte(string(f.text))
		slices.Reverse(back)
		e.nested("disguise: written backwards", 0.4, back, depth)
	}
	if marks.mixed {
		one, two := unleet(f.text, 'i'), unleet(f.text, 'l')
		e.nested("disguise: digits for letters", 0.3, one, depth)
		e.nested("disguise: digits for letters", 0.3, two, depth)
	}
	if marks.singles {
		e.spaced(f.text, depth)
	}
	if marks.dashed {
		e.nested("disguise: divided words", 0.2, undash(f.text), depth)
	}
}

// Lengths of runs that are decoded, in bytes.
const (
	minBase64 = 20
	minBase32 = 24
	minHex    = 24
)

// encodedRuns decodes stretches of base64 and of hexadecimal digits.
func (e *examination) encodedRuns(t []byte, depth int) {
	for i := 0; i < len(t); {
		if !isAlnum(t[i]) {
			i++
			continue
		}
		start := i
		hexOnly := true
		for i < len(t) && base64Byte(t[i]) {
			hexOnly = hexOnly && isHex(t[i])
			i++
		}
		for i < len(t) && i+1 < len(t) && (t[i] == '\n' || t[i] == '\r') && i-start >= 60 && base64Byte(t[i+1]) { // lines of a longer run
			k := i + 1
			allHex := hexOnly
			for k < len(t) && base64Byte(t[k]) {
				allHex = allHex && isHex(t[k])
				k++
			}
			if k-i < 5 || hexOnly && !allHex && i-start >= minHex {
				break
			}
			i, hexOnly = k, allHex
		}
		run := t[start:i]
		switch {
		case hexOnly && len(run) >= minHex && len(run)%2 == 0:
			e.decoded("disguise: hexadecimal", unhex(run), depth)
		case hexOnly && len(run) == 2 && pair(t, start) == 1:
			end := start
			for end+1 < len(t) && isHex(t[end]) && isHex(t[end+1]) {
				end += 2
				if end+2 < len(t) && (t[end] == ' ' || t[end] == ':' || t[end] == ',') && isHex(t[end+1]) && isHex(t[end+2]) {
					end++
				} else {
					break
				}
			}
			i = max(i, end)
			e.decoded("disguise: hexadecimal", unhex(t[start:i]), depth)
		case len(run) >= minBase32 && base32Only(run):
			e.decoded("disguise: base32", unbase32(run), depth)
		case len(run) >= minBase64 && plausible64(run):
			e.decoded("disguise: base64", unbase64(run), depth)
		}
	}
}

// plausible64 reports whether a run can be base64 of a text: few marks, and its
// first characters decode to text.
func plausible64(run []byte) bool {
	marks := 0
	for _, c := range run {
		if !isAlnum(c) {
			marks++
		}
	}
	if marks*8 > len(run) {
		return false
	}
	var out [12]byte
	n, err := base64.RawStdEncoding.Decode(out[:], run[:16])
	if err != nil {
		n, err = base64.RawURLEncoding.Decode(out[:], run[:16])
	}
	return err == nil && readableStart(out[:n])
}

// readableStart is readable for a text that was cut.
func readableStart(plain []byte) bool {
	for len(plain) > 9 {
		if utf8.Valid(plain) {
			return readable(plain)
		}
		plain = plain[:len(plain)-1]
	}
	return false
}

func base64Byte(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '-' || c == '_' }

// decoded examines a decoded text when it is one.
func (e *examination) decoded(name string, plain []byte, depth int) {
	if len(plain) >= 12 && readable(plain) {
		e.nested(name, 0.35, plain, depth)
	}
}

// readable reports text: UTF-8 with hardly any control characters, and spaces,
// letters of other scripts or a second encoding.
func readable(plain []byte) bool {
	if !utf8.Valid(plain) {
		return false
	}
	control := 0
	for _, c := range plain {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7F {
			control++
		}
	}
	return control*20 <= len(plain)
}

// unbase64 decodes a run in either alphabet, as far as it goes.
func unbase64(run []byte) []byte {
	in := make([]byte, 0, len(run))
	for _, c := range run {
		switch c {
		case '-':
			c = '+'
		case '_':
			c = '/'
		case '\n', '\r':
			continue
		}
		in = append(in, c)
	}
	if len(in)%4 == 1 {
		in = in[:len(in)-1]
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(in)))
	n, err := base64.RawStdEncoding.Decode(out, in)
	if err != nil {
		return nil
	}
	return out[:n]
}

// base32Only reports whether a run has only characters of base32, and line ends.
func base32Only(run []byte) bool {
	for _, c := range run {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

// unbase32 decodes a run of base32, nil when it is none.
func unbase32(run []byte) []byte {
	run = bytes.ReplaceAll(bytes.ReplaceAll(run, []byte("\n"), nil), []byte("\r"), nil)
	for cut := range min(8, len(run)) { // letters of what follows may look like more of it
		if plain, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(string(run[:len(run)-cut])); err == nil {
			return plain
		}
	}
	return nil
}

func unhex(run []byte) []byte {
	out := make([]byte, 0, len(run)/2)
	high, half := byte(0), false
	for _, c := range run {
		if !isHex(c) {
			continue
		}
		v := c - '0'
		if !isDigit(c) {
			v = lower(c) - 'a' + 10
		}
		if half {
			out = append(out, high<<4|v)
		}
		high, half = v, !half
	}
	return out
}

// printable reports whether quoted-printable stands at i: another such byte is
// beside it. A single =10 is a value.
func printable(t []byte, i int) bool {
	quoted := func(i int) bool { return i >= 0 && i+2 < len(t) && t[i] == '=' && isHex(t[i+1]) && isHex(t[i+2]) }
	return quoted(i-3) || quoted(i+3)
}

// octal reports an escape of three octal digits: \101.
func octal(t []byte) bool {
	return len(t) >= 4 && t[0] == '\\' && t[1] >= '0' && t[1] <= '3' && t[2] >= '0' && t[2] <= '7' && t[3] >= '0' && t[3] <= '7'
}

// unescape resolves %41, =41=42, &#65;, &#x41; the named entities of marks, \u0041, \x41 and \101.
func unescape(t []byte) []byte {
	out := make([]byte, 0, len(t))
	for i := 0; i < len(t); {
		if r, n := escape(t[i:min(len(t), i+12)]); n > 0 && (t[i] != '=' || printable(t, i)) {
			if t[i] == '%' || t[i] == '=' || octal(t[i:]) {
				out = append(out, byte(r))
			} else {
				out = utf8.AppendRune(out, r)
			}
			i += n
			continue
		}
		if t[i] == '+' && i > 0 && i+1 < len(t) && wordByte(t[i-1]) && (wordByte(t[i+1]) || t[i+1] == '%') {
			out = append(out, ' ')
		} else {
			out = append(out, t[i])
		}
		i++
	}
	return out
}

var namedEntities = []struct {
	name string
	r    rune
}{{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", ' '}, {"&colon;", ':'}, {"&period;", '.'}, {"&NewLine;", '\n'}}

// escape reads the escape that t begins with and returns its length, 0 when there is none.
func escape(t []byte) (rune, int) {
	number := func(from, digits, base int) (rune, int) {
		end := from
		for end < len(t) && end-from < digits && isHex(t[end]) && (base == 16 || isDigit(t[end])) {
			end++
		}
		v, err := strconv.ParseUint(string(t[from:end]), base, 32)
		if err != nil || v > utf8.MaxRune {
			return 0, 0
		}
		return rune(v), end
	}
	switch {
	case len(t) >= 3 && t[0] == '%':
		if r, end := number(1, 2, 16); end == 3 {
			return r, 3
		}
	case len(t) >= 4 && t[0] == '&' && t[1] == '#':
		from, base := 2, 10
		if t[2] == 'x' || t[2] == 'X' {
			from, base = 3, 16
		}
		if r, end := number(from, 7, base); end > from {
			if end < len(t) && t[end] == ';' {
				end++
			}
			return r, end
		}
	case len(t) >= 4 && t[0] == '&':
		for _, n := range namedEntities {
			if hasPrefix(t, n.name) {
				return n.r, len(n.name)
			}
		}
	case len(t) >= 4 && t[0] == '\\' && t[1] == 'x':
		if r, end := number(2, 2, 16); end == 4 {
			return r, 4
		}
	case len(t) >= 3 && t[0] == '=':
		if r, end := number(1, 2, 16); end == 3 && (r >= ' ' || r == '\n') {
			return r, 3
		}
	case octal(t):
		return rune(t[1]-'0')<<6 | rune(t[2]-'0')<<3 | rune(t[3]-'0'), 4
	case len(t) >= 6 && t[0] == '\\' && t[1] == 'u':
		if r, end := number(2, 4, 16); end == 6 {
			return r, 6
		}
	}
	return 0, 0
}
