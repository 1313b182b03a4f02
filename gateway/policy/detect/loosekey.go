package detect

import "bytes"

// Keys without a characteristic form are found by their context: a word for a secret, and
// an assignment; without them every long identifier would be found.
const (
	minLoose       = 16 // bytes of a word that is examined
	minLooseDigits = 10 // the same for a word with digits
	minLooseKey    = 20 // bytes of the whole key
	looseContext   = 48
)

// keyWords are the last words in the names of secrets.
var keyWords = []string{
	"api_key", "api-key", "apikey", "api key", "access_key", "access-key", "accesskey", "access key", "secret_key", "secret-key", "secretkey", "secret key",
	"client_secret", "client-secret", "clientsecret", "client secret", "app_secret", "secret_access_key", "auth_token", "auth-token", "authtoken", "auth token",
	"access_token", "access-token", "accesstoken", "access token", "account_key", "accountkey", "account key", "sharedaccesskey", "bearer", "signing_secret",
	"signing secret", "webhook_secret", "webhook secret", "private_token", "private-token", "api_token", "api-token", "api token", "apitoken", "bot_token", "bot token", "encryption_key", "license_key",
	"subscription-key", "subscription_key", "x-functions-key", "app_key", "application key", "application_key", "service_key", "refresh_token", "token", "secret", "sharedkey", "sas_key", "master_key", "sig", "_pat", "azdo_pat", "ssws", "storage_key",
}

// uuidKeyWords are the last words in the names of secrets that may be UUIDs. Words that also name
// other things (token, sig, a page or a request) are not among them.
var uuidKeyWords = []string{
	"api_key", "api-key", "apikey", "api key", "api_token", "api-token", "apitoken", "api token", "auth_token", "auth-token", "authtoken", "auth token",
	"access_token", "access-token", "accesstoken", "private_token", "private-token", "access_key", "access-key", "accesskey", "secret_key", "secret-key", "secretkey", "secret",
}

// looseKey examines a long word with digits. It returns the end of a key, or 0.
func (p *pass) looseKey(start, end int) int {
	t := p.text
	from := start
	for from > 0 && start-from < maxKey && inLoose(t[from-1]) && t[from-1] != '=' {
		from--
	}
	for end < len(t) && end-start < maxKey && inLoose(t[end]) {
		end++
	}
	for end > from && (t[end-1] == '.' || t[end-1] == '-' || t[end-1] == '/') {
		end--
	}
	for from < end && !isAlnum(t[from]) {
		from++
	}
	body := t[from:end]
	if azure(body) {
		return p.add(APIKey, from, end)
	}
	if n := bytes.IndexByte(body, '.'); n > 0 {
		if e := terraformEnd(t, from, from+n); e > 0 {
			return p.add(APIKey, from, e)
		}
	}
	if len(body) < minLooseKey || from < p.end || bytes.Contains(body, []byte("//")) && bytes.IndexByte(body, ':') >= 0 {
		return 0
	}
	id := uuid(body)
	if !id && !drawn(body) {
		return 0
	}
	var buf [looseContext]byte
	name := assignedName(p.context(buf[:], from))
	switch {
	case id:
		if !namesSecret(name, uuidKeyWords) {
			return 0
		}
	case start < p.cookie && namesSecret(name, cookieWords) && !wordlike(body):
	case !namesSecret(name, keyWords), !hexOnly(body) && wordlike(body):
		return 0
	case bytes.HasSuffix(name, []byte("&x-amz-security-token")), bytes.HasSuffix(name, []byte("?x-amz-security-token")): // a part of the signature of a URL
		return 0
	}
	return p.add(APIKey, from, end)
}

// inLoose reports the characters of keys without a characteristic form.
func inLoose(c byte) bool {
	return isWord(c) || c == '-' || c == '+' || c == '/' || c == '=' || c == '.' || c == '~'
}

// drawn reports whether a text looks random and is not another kind of identifier: a
// date, a path.
func drawn(body []byte) bool {
	var digits, letters, marks, distinct int
	var seen [256]bool
	for _, c := range body {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
		switch {
		case isDigit(c):
			digits++
		case class[c]&letter != 0:
			letters++
		case c == '=':
		default:
			marks++
		}
	}
	switch {
	case hexOnly(body):
		return len(body) >= 32 && len(body)%2 == 0 && digits > 0 && distinct >= 8
	case letters < 6, distinct < 10, marks > len(body)/8+2:
		return false
	}
	return digits > 1 || digits == 1 && mixedCase(body) || unlikeWords(body)
}

// hexOnly reports a text of hexadecimal digits.
func hexOnly(body []byte) bool {
	for _, c := range body {
		if !isHex(c) {
			return false
		}
	}
	return true
}

// uuid reports the form of a UUID.
func uuid(b []byte) bool {
	if len(b) != 36 {
		return false
	}
	for i, c := range b {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isHex(c) {
			return false
		}
	}
	return true
}

// assignedName returns the part of near that ends with the name in an assignment: it removes an
// equals sign, a colon, quotes, "is", or a space after bearer. It returns nothing when there is
// no assignment.
func assignedName(near []byte) []byte {
	i := len(near)
	for i > 0 && (near[i-1] == ' ' || near[i-1] == '"' || near[i-1] == '\'' || near[i-1] == '`' || near[i-1] == '\\' || near[i-1] == '\t') {
		i--
	}
	mark := i
	for i > 0 && (near[i-1] == '=' || near[i-1] == ':' || near[i-1] == '>' || near[i-1] == ',') {
		i--
	}
	hasMark := i < mark
	for i > 0 && (near[i-1] == ' ' || near[i-1] == '"' || near[i-1] == '\'' || near[i-1] == '`' || near[i-1] == '\\' || near[i-1] == '\t' || near[i-1] == ')' || near[i-1] == ']') {
		i--
	}
	near = near[:i]
	if hasMark || bytes.HasSuffix(near, []byte("bearer")) {
		return near
	}
	if name, ok := bytes.CutSuffix(near, []byte(" is")); ok {
		return name
	}
	return nil
}

// namesSecret reports whether name ends with one of words.
func namesSecret(name []byte, words []string) bool {
	for _, w := range words {
		if bytes.HasSuffix(name, []byte(w)) {
			return true
		}
	}
	return false
}
