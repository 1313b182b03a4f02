package detect

import (
	"bytes"
	"encoding/base64"
)

// Keys without a characteristic prefix, found by their form.

// formed checks a word with digits that a colon or a dash follows. It returns the end of a key,
// or 0.
func (p *pass) formed(start, end int) int {
	t := p.text
	switch t[end] {
	case ':':
		if bytes.HasPrefix(t[start:end], []byte("bot")) { // as in api.telegram.org/bot123456789:AA…
			start += len("bot")
		}
		if e := telegramEnd(t, start, end); e > 0 {
			return p.add(APIKey, start, e)
		}
	case '-':
		if e := mailchimpEnd(t, start, end); e > 0 {
			return p.add(APIKey, start, e)
		}
	}
	return 0
}

// telegramEnd returns the end of the token of a Telegram bot whose id is the word from start to
// end, followed by a colon, an A and 34 more characters.
func telegramEnd(t []byte, start, end int) int {
	const secret = 35
	if n := end - start; n < 8 || n > 10 || end+1+secret > len(t) || t[end] != ':' || t[end+1] != 'A' {
		return 0
	}
	for _, c := range t[start:end] {
		if !isDigit(c) {
			return 0
		}
	}
	body := t[end+1 : end+1+secret]
	for _, c := range body {
		if !isWord(c) && c != '-' {
			return 0
		}
	}
	last := end + 1 + secret
	if last < len(t) && isWord(t[last]) || !random(body, urlSafe) {
		return 0
	}
	return last
}

// mailchimpEnd returns the end of a Mailchimp key whose first part is the word from
// start to end: 32 hexadecimal digits and -us with the number of a data center.
func mailchimpEnd(t []byte, start, end int) int {
	if end-start != 32 || !bytes.HasPrefix(t[end:], []byte("-us")) || !random(t[start:end], hexadecimal) {
		return 0
	}
	for _, c := range t[start:end] {
		if !isDigit(c) && (c < 'a' || c > 'f') {
			return 0
		}
	}
	i := end + len("-us")
	from := i
	for i < len(t) && isDigit(t[i]) {
		i++
	}
	if i == from || i-from > 2 || i < len(t) && isWord(t[i]) {
		return 0
	}
	return i
}

// airtable reports the body of an Airtable token after pat: an id of 14 characters, a dot, and 64
// hexadecimal digits.
func airtable(body []byte) bool {
	const id = 14
	return len(body) == id+1+64 && bytes.IndexByte(body, '.') == id && hexOnly(body[id+1:])
}

// slackHook reports the body of a Slack webhook: two ids and the secret.
func slackHook(body []byte) bool {
	secret := body[bytes.LastIndexByte(body, '/')+1:]
	return bytes.Count(body, []byte("/")) >= 2 && len(secret) >= 16 && !wordlike(secret)
}

// maxEncodedToken bounds how much of the base64 of a token is decoded, in bytes.
const maxEncodedToken = 2 * maxTokenHeader

// encodedJWTEnd returns the end of the base64 of a JSON web token at start, 0 when there is none.
// Its header is verified, and the beginning of its payload.
func encodedJWTEnd(t []byte, start int) int {
	if start > 0 && (t[start-1] == '-' || t[start-1] == '+' || t[start-1] == '/') {
		return 0 // in the middle of a base64 text
	}
	i := start
	for limit := min(len(t), start+2*maxToken); i < limit && (isWord(t[i]) || t[i] == '-' || t[i] == '+' || t[i] == '/'); i++ {
	}
	text := t[start:i]
	for n := 0; n < 2 && i < len(t) && t[i] == '='; n++ {
		i++
	}
	text = text[:min(len(text), maxEncodedToken)]
	text = text[:len(text)/4*4]
	var decoded [maxEncodedToken]byte
	n, err := base64.RawURLEncoding.Decode(decoded[:], text)
	if err != nil {
		if n, err = base64.RawStdEncoding.Decode(decoded[:], text); err != nil {
			return 0
		}
	}
	head, payload, ok := bytes.Cut(decoded[:n], []byte("."))
	var buf [maxTokenHeader]byte
	if !ok || tokenHeader(buf[:], head) == nil || !tokenPayload(payload) {
		return 0
	}
	return i
}
