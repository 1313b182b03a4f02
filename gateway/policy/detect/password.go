package detect

import "bytes"

// Passwords have no characteristic form and are found by their position: after the user in a URL
// (scheme://user:password@host) and in the option -u of curl.

// Bounds of the search for a password, in bytes.
const (
	maxUserInfo = 512  // from :// to @
	maxCommand  = 4096 // from curl to the end of its command
)

// place is the position of a password that the pass has not reached yet. Its user is scanned
// first, because it may contain keys and mail addresses.
type place struct{ start, end int }

// colon examines a colon, which may precede a password or be in an address.
func (p *pass) colon(i int) int {
	if p.want&wantAPIKey != 0 {
		if i+1 == p.password.start {
			return p.add(APIKey, p.password.start, p.password.end)
		}
		if bytes.HasPrefix(p.text[i:], []byte("://")) {
			p.userInfo(i + len("://"))
			return i + len("://")
		}
	}
	if p.want&wantIP != 0 {
		return p.ipv6(i)
	}
	return i + 1
}

// userInfo finds a password in the authority of a URL that begins at start: the text between its
// first colon and its last @.
func (p *pass) userInfo(start int) {
	t := p.text[start:min(len(p.text), start+maxUserInfo)]
	colon, at := -1, -1
	for i := 0; i < len(t) && inUserInfo(t[i]); i++ {
		switch {
		case t[i] == ':' && colon < 0:
			colon = i
		case t[i] == '@':
			at = i
		}
	}
	if colon < 0 || at < colon || at+1 == len(t) || !isAlnum(t[at+1]) && t[at+1] != '[' && t[at+1] != '$' && t[at+1] != '{' && t[at+1] < 0x80 {
		return
	}
	p.expect(t, start, 0, colon, at)
}

// inUserInfo reports whether a byte may occur between :// and the end of the host.
func inUserInfo(c byte) bool {
	switch c {
	case '/', '?', '#', '"', '\'', '`', '<', '>', '\\', '|':
		return false
	}
	return c > ' ' && c != 0x7F
}

// expect records the password t[colon+1:end] of the user t[user:colon], unless it is a
// placeholder. t begins at start of the text.
func (p *pass) expect(t []byte, start, user, colon, end int) {
	if password := t[colon+1 : end]; !placeholder(password) && !bytes.Equal(password, t[user:colon]) {
		p.password = place{start + colon + 1, start + end}
	}
}

// placeholders are words that documents write in place of a password.
var placeholders = []string{"password", "passwd", "passphrase", "pass", "pwd", "pw", "secret", "token", "key", "apikey", "api_key", "api-key", "x-oauth-basic"}

// placeholder reports that the text is not a password: it is empty, a variable, a single repeated
// character, or a word for a placeholder.
func placeholder(password []byte) bool {
	if len(password) == 0 || bytes.ContainsAny(password[:1], "$<{[%") && !percentEncoded(password) || bytes.Contains(password, []byte("${")) || bytes.Contains(password, []byte("{{")) {
		return true
	}
	if len(bytes.Trim(password, "xX*.-_")) == 0 {
		return true
	}
	var buf [32]byte
	if len(password) > len(buf) {
		return false
	}
	small := before(buf[:], password, len(password))
	for _, own := range []string{"your", "my"} {
		if rest, ok := bytes.CutPrefix(small, []byte(own)); ok {
			small = bytes.TrimLeft(rest, "-_")
			break
		}
	}
	small = bytes.TrimRight(small, "]}>)")
	for _, w := range placeholders {
		if string(small) == w {
			return true
		}
	}
	return false
}

// percentEncoded reports that a text begins with an encoded byte, as in %40.
func percentEncoded(b []byte) bool {
	return len(b) > 2 && b[0] == '%' && isHex(b[1]) && isHex(b[2])
}

// curl records the end of the curl command whose name begins at start.
func (p *pass) curl(start int) {
	if start < p.command {
		return // in the previous command
	}
	t := p.text
	i := start
	for limit := min(len(t), start+maxCommand); i < limit; i++ {
		if t[i] == '\n' && !continued(t[start:i]) {
			break
		}
	}
	p.command = i
}

// continued reports a backslash at the end of a line.
func continued(line []byte) bool {
	return bytes.HasSuffix(bytes.TrimSuffix(line, []byte("\r")), []byte(`\`))
}

// userOption examines a dash in a curl command: -u user:password and its other spellings.
func (p *pass) userOption(dash int) {
	t := p.text[dash:min(len(p.text), p.command, dash+maxUserInfo)]
	if dash == 0 || p.text[dash-1] > ' ' {
		return
	}
	user := userArgument(t)
	if user == 0 {
		return
	}
	quote := byte(' ')
	if user < len(t) && (t[user] == '"' || t[user] == '\'') {
		quote = t[user]
		user++
	}
	colon, end := -1, user
	for ; end < len(t) && t[end] != quote && t[end] >= ' ' && (quote != ' ' || !bytes.ContainsAny(t[end:end+1], "\"'`")); end++ {
		if t[end] == ':' && colon < 0 {
			colon = end
		}
	}
	if colon < 0 {
		return
	}
	p.expect(t, dash, user, colon, end)
}

// userArgument returns the start of the argument of the option at the start of t, 0 if it is not
// an option for users.
func userArgument(t []byte) int {
	i := 0
	for _, option := range []string{"--user", "--proxy-user"} {
		if bytes.HasPrefix(t, []byte(option)) && len(t) > len(option) && (t[len(option)] == ' ' || t[len(option)] == '=') {
			i = len(option) + 1
		}
	}
	if i == 0 {
		for i = 1; i < len(t) && class[t[i]]&letter != 0 && t[i]|0x20 != 'u'; i++ {
		}
		if i == len(t) || t[i]|0x20 != 'u' {
			return 0
		}
		i++ // -u and -sku
	}
	for i < len(t) && t[i] == ' ' {
		i++
	}
	return i
}
