package detect

import "bytes"

// secret examines a word that begins like a key. It returns the end of a finding, or 0.
func (p *pass) secret(start int) int {
	t := p.text
	if start > 0 && isAlnum(t[start-1]) && !escaped(t, start) {
		return 0
	}
	if p.want&wantJWT != 0 && bytes.HasPrefix(t[start:], []byte("eyJ")) {
		if end := jwtEnd(t, start); end > 0 {
			return p.add(JWT, start, end)
		}
	}
	if p.want&wantJWT != 0 && bytes.HasPrefix(t[start:], []byte("ZXlK")) {
		if end := encodedJWTEnd(t, start); end > 0 {
			return p.add(JWT, start, end)
		}
	}
	if p.want&wantAPIKey == 0 {
		return 0
	}
	if bytes.HasPrefix(t[start:], []byte("curl")) {
		p.curl(start)
		return 0
	}
	if hasSuffixFold(t[start:min(len(t), start+len("cookie"))], "cookie") {
		p.cookies(start)
		return 0
	}
	for _, k := range keyStarts.shapes[[2]byte{t[start], t[start+1]}] {
		if !bytes.HasPrefix(t[start:], []byte(k.prefix)) {
			continue
		}
		end := k.end(t, start)
		if end == 0 || k.named && !p.named(start, end) || k.chars == upperDigits && k.max == 16 && signed(t, start, end) {
			continue
		}
		if k.public {
			start += len(k.prefix)
		}
		return p.add(APIKey, start, end)
	}
	return 0
}

// signed reports that the identifier of an access key is a part of a signature, in a presigned URL or
// a header: it is no secret there, and without it the signature is not valid.
func signed(t []byte, start, end int) bool {
	var buf [16]byte
	near := before(buf[:], t, start)
	switch rest := t[end:min(len(t), end+3)]; {
	case bytes.HasSuffix(near, []byte("credential=")):
		return bytes.HasPrefix(rest, []byte("/")) || bytes.EqualFold(rest, []byte("%2f"))
	case bytes.HasSuffix(near, []byte("?awsaccesskeyid=")), bytes.HasSuffix(near, []byte("&awsaccesskeyid=")):
		return true
	}
	return false
}

// named reports that the name of a secret precedes a key.
func (p *pass) named(start, end int) bool {
	var buf [looseContext]byte
	return namesSecret(assignedName(p.context(buf[:], start)), keyWords) && !wordlike(p.text[start:end])
}

// end returns the end of a key of this shape that begins at start, or 0.
func (k *formedShape) end(t []byte, start int) int {
	i := start + len(k.prefix)
	body := i
	limit := len(t)
	if k.max > 0 {
		limit = min(limit, body+k.max)
	} else {
		limit = min(limit, body+maxKey)
	}
	for i < limit && k.in(t[i]) {
		i++
	}
	if i < len(t) && k.in(t[i]) && k.max > 0 && isAlnum(t[i]) {
		return 0 // longer than any such key
	}
	for i > body && (t[i-1] == '-' || t[i-1] == '.') {
		i-- // the end of a sentence, or a dash after it
	}
	if i-body < k.min || !random(t[body:i], k.chars) || k.form != nil && !k.form(t[body:i]) {
		return 0
	}
	return i
}

// maxKey bounds the length of a key without a fixed length, in bytes.
const maxKey = 512

// in reports whether a byte may occur in the body of the key.
func (k *keyShape) in(c byte) bool {
	switch k.chars {
	case hexadecimal:
		return isDigit(c) || c >= 'a' && c <= 'f'
	case upperDigits:
		return isDigit(c) || isUpper(c)
	case alnum:
		return isAlnum(c)
	case dotted:
		return isWord(c) || c == '-' || c == '.'
	case pathText:
		return isWord(c) || c == '-' || c == '/' || c == '@'
	case base64Text:
		return isAlnum(c) || c == '+' || c == '/' || c == '='
	}
	return isWord(c) || c == '-'
}

// random reports whether the body of a key looks random: digits among letters and many different
// characters. It distinguishes keys from placeholders, which repeat one character or join words
// by underscores, and from names.
func random(body []byte, chars charset) bool {
	var seen [256]bool
	distinct, digits, run, longest := 0, 0, 0, 0
	for i, c := range body {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
		if isDigit(c) {
			digits++
		}
		if i > 0 && c == body[i-1] {
			run++
		} else {
			run = 1
		}
		longest = max(longest, run)
	}
	if distinct < min(8, len(body)/2) || longest > 6 && longest > len(body)/4 {
		return false
	}
	switch {
	case digits > 0:
		return true
	case chars == hexadecimal || wordlike(body):
		return false
	}
	return len(body) >= 16 && (chars == upperDigits || mixedCase(body) && unlikeText(body))
}

// mixedCase reports letters of both cases that change often, which is common in random text and
// rare in names.
func mixedCase(body []byte) bool {
	changes := 0
	for i := 1; i < len(body); i++ {
		a, b := body[i-1], body[i]
		if class[a]&letter != 0 && class[b]&letter != 0 && isUpper(a) != isUpper(b) {
			changes++
		}
	}
	return changes*4 >= len(body)
}
