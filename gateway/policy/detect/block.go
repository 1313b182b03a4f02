package detect

import (
	"bytes"
	"encoding/base64"
)

// privateKey checks for a private key at a dash: the whole block from BEGIN to END is one
// finding. A truncated block ends with its body.
func (p *pass) privateKey(start int) int {
	t := p.text
	dashes := start
	for dashes < len(t) && t[dashes] == '-' {
		dashes++
	}
	line := t[dashes:min(len(t), dashes+64)]
	line = bytes.TrimPrefix(line, []byte(" "))
	if dashes-start < 4 || !bytes.HasPrefix(line, []byte("BEGIN ")) {
		return dashes
	}
	title := line
	if i := bytes.Index(line, []byte("----")); i > 0 {
		title = line[:i]
	} else {
		return dashes
	}
	if !bytes.Contains(title, []byte("PRIVATE KEY")) {
		return dashes
	}
	i := dashes + (len(t[dashes:min(len(t), dashes+64)]) - len(line)) + len(title)
	for i < len(t) && t[i] == '-' {
		i++
	}
	body := i
	for i < len(t) && !(t[i] == '-' && bytes.HasPrefix(t[i:], []byte("----"))) && inBlock(t[i]) {
		i++
	}
	if !bytes.HasPrefix(t[i:], []byte("----")) {
		for i > body && (t[i-1] <= ' ' || t[i-1] == '\\') {
			i--
		}
		if i-body < 40 {
			return body
		}
		return p.add(PrivateKey, start, i)
	}
	end := i
	for end < len(t) && t[end] == '-' {
		end++
	}
	rest := bytes.TrimPrefix(t[end:min(len(t), end+64)], []byte(" "))
	if !bytes.HasPrefix(rest, []byte("END ")) {
		if i-body < 40 {
			return i
		}
		return p.add(PrivateKey, start, i)
	}
	n := bytes.Index(rest, []byte("----"))
	if n < 0 {
		return p.add(PrivateKey, start, end+len(t[end:min(len(t), end+64)])-len(rest)+len("END "))
	}
	end += len(t[end:min(len(t), end+64)]) - len(rest) + n
	for n := 0; end < len(t) && t[end] == '-' && n < dashes-start; n++ {
		end++
	}
	return p.add(PrivateKey, start, end)
}

// inBlock reports the characters between BEGIN and END: base64, header lines, and line breaks,
// also those written as \n.
func inBlock(c byte) bool {
	return isWord(c) || c <= ' ' || c == '+' || c == '/' || c == '=' || c == '-' || c == ':' || c == ',' || c == '\\' || c == '.' || c == '(' || c == ')' || c == '"' || c == '\'' || c == '@'
}

// maxTokenHeader bounds the header of a token that is decoded, in bytes of base64.
const maxTokenHeader = 1024

// maxToken bounds a token, in bytes.
const maxToken = 16 << 10

// jwtEnd returns the end of the JSON web token at start, 0 when there is none: a header that
// decodes to an object with an algorithm, and the parts of a signed (three) or encrypted (five)
// token.
func jwtEnd(t []byte, start int) int {
	var parts [6]int // ends of the parts
	n, i := 0, start
	limit := min(len(t), start+maxToken)
	for n < len(parts) {
		from := i
		for i < limit && (isWord(t[i]) || t[i] == '-') {
			i++
		}
		if i == from && n != 2 && n != 1 {
			break
		}
		parts[n] = i
		n++
		if i >= limit || t[i] != '.' {
			break
		}
		i++
	}
	if n < 3 || n == 4 || n > 5 || parts[0]-start > maxTokenHeader {
		if n < 3 || parts[0]-start > maxTokenHeader {
			return 0
		}
		n = 3
	}
	var buf [maxTokenHeader]byte
	head := tokenHeader(buf[:], t[start:parts[0]])
	if head == nil {
		return 0
	}
	if n == 5 && bytes.Contains(head, []byte(`"enc"`)) {
		return parts[4]
	}
	if !tokenPayload(t[parts[0]+1 : parts[1]]) {
		return 0
	}
	if parts[2] == parts[1]+1 && !bytes.Contains(bytes.ToLower(head), []byte(`"none"`)) {
		return 0
	}
	return parts[2]
}

// tokenHeader decodes the header of a token into buf. It returns nil if the header is too long,
// or not an object with an algorithm or a type.
func tokenHeader(buf, text []byte) []byte {
	if base64.RawURLEncoding.DecodedLen(len(text)) > len(buf) {
		return nil
	}
	n, err := base64.RawURLEncoding.Decode(buf, text)
	head := buf[:n]
	if err != nil || n < 2 || head[0] != '{' || !bytes.Contains(head, []byte(`"alg"`)) && !bytes.Contains(head, []byte(`"typ"`)) {
		return nil
	}
	return head
}

// tokenPayload reports that the payload of a token begins like an object: the base64 of {" or of
// { and a space.
func tokenPayload(text []byte) bool {
	return len(text) >= 3 && text[0] == 'e' && text[1] >= 'w' && text[1] <= 'z'
}
