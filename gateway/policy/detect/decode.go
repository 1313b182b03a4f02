package detect

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"unicode/utf8"
)

// Lengths of encoded runs that are decoded, in bytes.
const (
	minBase64 = longWord
	minHex    = 24
)

// runs decodes the base64 and hexadecimal runs around the words at the given offsets, and
// calls found with those that are text.
func runs(t []byte, words []int32, found func(name string, plain []byte)) {
	done := 0
	for _, at := range words {
		if int(at) < done {
			continue
		}
		start, end := encodedRun(t, int(at), done)
		done = end
		run := t[start:end]
		if len(run) < minBase64 {
			continue
		}
		if plain := unhex(run); readable(plain) {
			found("disguise: hexadecimal", plain)
		} else if startsReadable(run) {
			if plain := unbase64(run); readable(plain) {
				found("disguise: base64", plain)
			}
		}
	}
}

// encodedRun returns the base64 characters around start, not before done, with the lines that
// continue them.
func encodedRun(t []byte, start, done int) (from, end int) {
	for start > done && base64Byte(t[start-1]) {
		start--
	}
	end = runEnd(t, start)
	for end-start >= 60 && end+1 < len(t) && (t[end] == '\n' || t[end] == '\r') { // lines of a longer run
		next := end + 1
		if t[end] == '\r' && t[next] == '\n' {
			next++
		}
		if more := runEnd(t, next); more-next > 4 {
			end = more
			continue
		}
		break
	}
	return start, end
}

// runEnd returns the end of the base64 characters that begin at i.
func runEnd(t []byte, i int) int {
	for i < len(t) && base64Byte(t[i]) {
		i++
	}
	return i
}

func base64Byte(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '-' || c == '_' }

// startsReadable reports whether the first characters of a run decode to text, to skip most other
// runs early.
func startsReadable(run []byte) bool {
	plain := unbase64(run[:16])
	for len(plain) > 9 && !utf8.Valid(plain) { // an incomplete character at the end
		plain = plain[:len(plain)-1]
	}
	return len(plain) > 8 && readable(plain)
}

// readable reports text: UTF-8 with hardly any control characters.
func readable(plain []byte) bool {
	if len(plain) < 9 || !utf8.Valid(plain) {
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

// unbase64 decodes a run in either base64 alphabet.
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
	n, err := base64.RawStdEncoding.Decode(in, in)
	if err != nil {
		return nil
	}
	return in[:n]
}

// unhex decodes a run of hexadecimal digits, nil when it is none.
func unhex(run []byte) []byte {
	if len(run) < minHex || len(run)%2 != 0 || !isHex(run[0]) || !isHex(run[1]) {
		return nil
	}
	out := make([]byte, len(run)/2)
	if _, err := hex.Decode(out, run); err != nil {
		return nil
	}
	return out
}

// unescapeLines returns the lines of t that contain escapes, decoded.
func unescapeLines(t []byte) (out []byte) {
	for line := range bytes.Lines(t) {
		if bytes.IndexByte(line, '%') >= 0 || bytes.IndexByte(line, '&') >= 0 {
			if plain := unescape(line); len(plain) < len(line) {
				out = append(out, plain...)
			}
		}
	}
	return out
}

// unescape decodes the escapes of URLs and HTML: %41, &#65;, &#x41;, and the named entities of
// punctuation.
func unescape(t []byte) []byte {
	out := make([]byte, 0, len(t))
	for i := 0; i < len(t); {
		switch r, n := escape(t[i:min(len(t), i+maxEscape)]); {
		case n == 0 && t[i] == '+' && i > 0 && i+1 < len(t) && wordByte(t[i-1]) && (wordByte(t[i+1]) || t[i+1] == '%'):
			out = append(out, ' ')
			i++
		case n == 0 && (t[i] == '=' || t[i] == '/') && i > 0 && wordByte(t[i-1]): // parts of a URL
			out = append(out, ' ')
			i++
		case n == 0:
			out = append(out, t[i])
			i++
		case t[i] == '%':
			out = append(out, byte(r))
			i += n
		default:
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return out
}

// maxEscape bounds an escape, in bytes.
const maxEscape = 12

// namedEntities are the entities of the characters that separate words.
var namedEntities = map[string]rune{"lt": '<', "gt": '>', "amp": '&', "quot": '"', "apos": '\'', "nbsp": ' ', "colon": ':', "period": '.',
	"NewLine": '\n'}

// escape decodes the escape at the start of t and returns its length, 0 when there is none.
func escape(t []byte) (rune, int) {
	switch {
	case len(t) < 3:
	case t[0] == '%' && isHex(t[1]) && isHex(t[2]):
		v, _ := strconv.ParseUint(string(t[1:3]), 16, 8)
		return rune(v), 3
	case t[0] == '&' && t[1] == '#':
		from, base := 2, 10
		if t[2]|0x20 == 'x' {
			from, base = 3, 16
		}
		end := from
		for end < len(t) && (isDigit(t[end]) || base == 16 && isHex(t[end])) {
			end++
		}
		v, err := strconv.ParseUint(string(t[from:end]), base, 21)
		if err != nil || v > utf8.MaxRune {
			return 0, 0
		}
		if end < len(t) && t[end] == ';' {
			end++
		}
		return rune(v), end
	case t[0] == '&' && class[t[1]]&letter != 0:
		if k := bytes.IndexByte(t, ';'); k > 0 {
			if r, known := namedEntities[string(t[1:k])]; known {
				return r, k + 1
			}
		}
	}
	return 0, 0
}
