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

// resend reports the body of a Resend key: an id, an underscore and the secret. Refunds of Stripe have
// the same prefix and no underscore.
func resend(body []byte) bool {
	n := bytes.IndexByte(body, '_')
	return n >= 6 && n <= 12 && len(body)-n > 16
}

// discordHook reports the body of a Discord webhook: its id and the secret.
func discordHook(body []byte) bool {
	id, secret, _ := bytes.Cut(body, []byte("/"))
	return len(id) >= 17 && len(id) <= 20 && len(bytes.Trim(id, "0123456789")) == 0 && len(secret) >= 60 && !wordlike(secret)
}

// teamsHook reports the body of a webhook of Microsoft Teams.
func teamsHook(body []byte) bool {
	return len(body) > 36 && uuid(body[:36]) && bytes.Contains(body, []byte("/IncomingWebhook/"))
}

// onePassword reports the body of a secret key of 1Password: capital letters and digits in groups.
func onePassword(body []byte) bool {
	for _, c := range body {
		if c != '-' && !isDigit(c) && !isUpper(c) {
			return false
		}
	}
	return len(body) == 36 || len(body) == 37 || bytes.Count(body, []byte("-")) >= 4
}

// azure reports a key of Azure DevOps of 84 letters and digits, in which a signature stands.
func azure(body []byte) bool {
	return len(body) == 84 && (bytes.HasPrefix(body[76:], []byte("AZDO")) || bytes.HasPrefix(body[75:], []byte("AZDO")))
}

// terraformEnd returns the end of a token of HCP Terraform whose first part is the word from start
// to end, or 0.
func terraformEnd(t []byte, start, end int) int {
	const middle = ".atlasv1."
	if end-start != 14 || !bytes.HasPrefix(t[end:], []byte(middle)) {
		return 0
	}
	i := end + len(middle)
	for from := i; i < len(t) && i-from < 80 && (isWord(t[i]) || t[i] == '-' || t[i] == '='); i++ {
	}
	if n := i - end - len(middle); n < 60 || !random(t[end+len(middle):i], urlSafe) {
		return 0
	}
	return i
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
