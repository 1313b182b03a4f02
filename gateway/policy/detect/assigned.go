package detect

import (
	"bytes"
	"encoding/base64"
)

// Secrets that are known by the name that they are assigned to, and by the formats that hold them:
// environment files, YAML and JSON, headers, cookies, .netrc, Secrets of Kubernetes, password files.

// Bounds of assigned values, in bytes.
const (
	minAssigned = 8
	maxAssigned = 256
	maxHeader   = 4096 // of a line with cookies
	maxSecret   = 16 << 10
)

// passwordNames are the last parts of names whose values are passwords.
var passwordNames = []string{"password", "passwd", "passphrase", "pwd", "passwort", "_pass", "dbpass", "requirepass"}

// assigned examines the word that ends at end as the name of a secret. It returns the end of the
// value if that is a secret, or 0.
func (p *pass) assigned(start, end int) int {
	t := p.text
	switch lower(t[end-1]) {
	case 'd', 'e', 't', 's': // password, passphrase, passwort, pass
		if !passwordName(t[start:end]) {
			return 0
		}
		if from, to, quoted := value(t, end); to > 0 && password(t[from:to], quoted) {
			return p.add(APIKey, from, to)
		}
		if t[end] <= ' ' {
			return p.netrc(end)
		}
	case 'c': // Basic
		if t[end] == ' ' && hasSuffixFold(t[start:end], "basic") {
			return p.credentials(end + 1)
		}
	case 'h': // auth, of Docker and npm
		if n := end - start; n == 4 || n == 5 && t[start] == '_' {
			if from, to, _ := value(t, end); to > 0 && hasSuffixFold(t[start:end], "auth") {
				return p.credentials(from)
			}
		}
	case 'g': // the signature of Azure's shared access
		if t[end] == '=' && start > 0 && (t[start-1] == '&' || t[start-1] == '?') && hasSuffixFold(t[start:end], "sig") {
			from, to := end+1, end+1
			for to < len(t) && to-from < maxAssigned && (isWord(t[to]) || t[to] == '%' || t[to] == '+' || t[to] == '/' || t[to] == '-' || t[to] == '=') {
				to++
			}
			if to-from >= 43 && random(t[from:to], urlSafe) {
				return p.add(APIKey, from, to)
			}
		}
	case 'a': // data of a Secret
		if end-start == 4 && hasSuffixFold(t[start:end], "data") {
			p.secretData(end)
		}
	}
	return 0
}

// passwordName reports that a name ends like that of a password.
func passwordName(name []byte) bool {
	for _, n := range passwordNames {
		if hasSuffixFold(name, n) {
			return true
		}
	}
	return false
}

// hasSuffixFold reports that b ends with a suffix of small letters, in any case.
func hasSuffixFold(b []byte, suffix string) bool {
	if len(b) < len(suffix) {
		return false
	}
	for i, c := range b[len(b)-len(suffix):] {
		if lower(c) != suffix[i] {
			return false
		}
	}
	return true
}

// value returns the span of the value that is assigned to the name that ends at i, without its
// quotes; to is 0 when there is none. A value without quotes ends at a space or a mark that divides.
func value(t []byte, i int) (from, to int, quoted bool) {
	skip := func(set string) {
		for limit := min(len(t), i+8); i < limit && bytes.IndexByte([]byte(set), t[i]) >= 0; i++ {
		}
	}
	skip("\\\"'` ")
	mark := i
	skip(":=>")
	if i == mark {
		return 0, 0, false
	}
	closing := t[i-1]
	skip(" \\")
	if i < len(t) && (t[i] == '"' || t[i] == '\'' || t[i] == '`') {
		closing, quoted = t[i], true
		i++
	}
	from = i
	for i < len(t) && i-from <= maxAssigned && t[i] > ' ' && t[i] < 0x7F {
		switch c := t[i]; {
		case quoted && (c == closing || c == '\\'), !quoted && (c == '"' || c == '\'' || c == '`' || c == ',' || c == ';' || c == ')' || c == '}' || c == ']' || c == '&'),
			c == '<' && closing == '>':
			return from, i, quoted
		}
		i++
	}
	if i-from > maxAssigned || quoted && (i == len(t) || t[i] != closing) {
		return 0, 0, false
	}
	return from, i, quoted
}

// samples are parts of passwords that documents and tests write in place of one.
var samples = []string{"pass", "pwd", "secret", "example", "sample", "change", "your", "test", "demo", "dummy", "default", "admin",
	"1234", "abcd", "qwerty", "xxx", "foo", "bar", "user", "login", "required", "null", "env", "token", "hunter2", "string", "letmein", "p@ss", "p4ss", "pa55", "p@55"}

// password reports that an assigned value is a password: characters of several kinds that make
// neither words, nor code, nor a path. Words that stand for a password are none.
func password(v []byte, quoted bool) bool {
	if len(v) < minAssigned || len(v) > maxAssigned || placeholder(v) || bytes.ContainsAny(v, "(){}<>|\\") || v[0] == '$' && !crypted(v) ||
		v[0] == '/' || v[0] == '.' || v[0] == '&' || v[0] == '*' || bytes.Contains(v, []byte("://")) || bytes.Contains(v, []byte("${")) || uuid(v) {
		return false
	}
	var small, big, digits, marks, distinct int
	var seen [256]bool
	for _, c := range v {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
		switch {
		case isDigit(c):
			digits++
		case isUpper(c):
			big++
		case class[c]&letter != 0:
			small++
		case c != '_' && c != '.' && c != '-' || quoted && c != '.':
			marks++
		}
	}
	if digits == 0 || small+big == 0 || distinct < 6 || marks > len(v)/2 {
		return false
	}
	var buf [maxAssigned]byte
	low := before(buf[:], v, len(v))
	for _, s := range samples {
		if bytes.Contains(low, []byte(s)) {
			return false
		}
	}
	switch {
	case marks == 0 && len(v) < 10, marks == 0 && !quoted && bytes.ContainsAny(v, "._["):
		return false // user.Field2
	case small > 0 && big > 0 || marks > 0:
		return !wordlike(v) || marks > 0
	}
	return len(v) >= 12 && digits > 1 && !wordlike(v)
}

// credentials checks for the base64 of user:password at start.
func (p *pass) credentials(start int) int {
	t := p.text
	end := start
	for end < len(t) && end-start < maxAssigned && (isAlnum(t[end]) || t[end] == '+' || t[end] == '/' || t[end] == '-' || t[end] == '_') {
		end++
	}
	for n := 0; n < 2 && end < len(t) && t[end] == '='; n++ {
		end++
	}
	body := bytes.TrimRight(t[start:end], "=")
	var buf [maxAssigned]byte
	n, err := base64.RawStdEncoding.Decode(buf[:], body)
	if err != nil || len(body) < 12 {
		return 0
	}
	user, pw, ok := bytes.Cut(buf[:n], []byte(":"))
	if !ok || len(user) > 64 || bytes.ContainsAny(user, "{[ \n") || end < len(t) && t[end] == '.' || len(pw) < 4 || !printable(buf[:n]) || placeholder(pw) || bytes.Equal(user, pw) {
		return 0
	}
	return p.add(APIKey, start, end)
}

// printable reports that a text has no control characters and none beyond ASCII.
func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c >= 0x7F {
			return false
		}
	}
	return true
}

// netrc finds the password of an entry of a .netrc file, whose name ends at i.
func (p *pass) netrc(i int) int {
	t := p.text
	var buf [128]byte
	near := before(buf[:], t, i)
	if login := bytes.LastIndex(near, []byte("login ")); login < 0 || !bytes.Contains(near[:login], []byte("machine ")) && !bytes.Contains(near[:login], []byte("default ")) {
		return 0
	}
	from := i
	for from < len(t) && t[from] <= ' ' {
		from++
	}
	to := from
	for to < len(t) && to-from < maxAssigned && t[to] > ' ' {
		to++
	}
	if v := t[from:to]; len(v) < 6 || placeholder(v) || !bytes.ContainsAny(v, figuresAndMarks) {
		return 0
	}
	return p.add(APIKey, from, to)
}

const figuresAndMarks = "0123456789!#%&*+-/=?@^_~"

// secretData notes where the data of a Secret of Kubernetes ends: its values are base64. i is behind
// the name data.
func (p *pass) secretData(i int) {
	if i < p.data || p.kind == noSecret || i >= len(p.text) || p.text[i] != ':' && p.text[i] != '"' {
		return
	}
	if p.kind == unknownKind {
		p.kind = noSecret
		if bytes.Contains(p.text, []byte("kind: Secret")) || bytes.Contains(p.text, []byte(`"kind":"Secret"`)) || bytes.Contains(p.text, []byte(`"kind": "Secret"`)) {
			p.kind = isSecret
		}
	}
	if p.kind != isSecret {
		return
	}
	limit := min(len(p.text), i+maxSecret)
	for i < limit && p.text[i] != '}' && (p.text[i-1] != '\n' || p.text[i] <= ' ') { // up to a line that is not indented
		i++
	}
	p.data = i
}

// ofSecret reports that the word from start on is a value in the data of a Secret, and where it ends.
func (p *pass) ofSecret(start int) int {
	t := p.text
	end := start
	for end < p.data && (isAlnum(t[end]) || t[end] == '+' || t[end] == '/') {
		end++
	}
	for n := 0; n < 2 && end < p.data && t[end] == '='; n++ {
		end++
	}
	var buf [8]byte
	if end-start < 8 || (end-start)%4 != 0 || assignedName(before(buf[:], t, start)) == nil {
		return 0
	}
	var head [48]byte
	n, err := base64.StdEncoding.Decode(head[:], t[start:min(end, start+64)])
	if err != nil || placeholder(head[:n]) || bytes.HasPrefix(head[:n], []byte("-----BEGIN CERT")) {
		return 0
	}
	return p.add(APIKey, start, end)
}

// secretKind is what is known about a text: whether it is a Secret of Kubernetes.
type secretKind uint8

const (
	unknownKind secretKind = iota
	noSecret
	isSecret
)

// cookieWords are the last words in the names of cookies that let their holder in.
var cookieWords = []string{"session", "sessionid", "session_id", "sessid", "sid", "auth", "token", "login", "jwt", "remember", "ticket", "sess"}

// cookies records the end of a line with cookies whose header name is at start.
func (p *pass) cookies(start int) {
	if i := start + len("cookie"); start >= p.cookie && i < len(p.text) && p.text[i] == ':' {
		line := p.text[i:min(len(p.text), i+maxHeader)]
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line = line[:n]
		}
		p.cookie = i + len(line)
	}
}

// cryptForms are the lengths of the last part of a password hash, by its first.
var cryptForms = map[string][2]int{"1": {22, 22}, "apr1": {22, 22}, "5": {43, 43}, "6": {86, 86}, "2a": {53, 53}, "2b": {53, 53}, "2x": {53, 53}, "2y": {53, 53},
	"y": {43, 43}, "gy": {43, 43}, "7": {43, 86}, "argon2id": {22, 120}, "argon2i": {22, 120}, "scrypt": {22, 120}, "pbkdf2-sha256": {22, 120}, "pbkdf2-sha512": {22, 120}}

// crypt checks for the hash of a password at a dollar sign, as in shadow and .htpasswd files.
func (p *pass) crypt(start int) int {
	if end := cryptEnd(p.text[start:min(len(p.text), start+maxAssigned)]); end > 0 {
		return p.add(APIKey, start, start+end)
	}
	return start + 1
}

func crypted(v []byte) bool { return cryptEnd(v) == len(v) }

// cryptEnd returns the end of the hash of a password at the start of t, or 0.
func cryptEnd(t []byte) int {
	n := bytes.IndexByte(t[1:min(len(t), 16)], '$')
	if n <= 0 {
		return 0
	}
	form, known := cryptForms[string(t[1:1+n])]
	if !known {
		return 0
	}
	last, i := n+1, n+2
	for ; i < len(t) && (isAlnum(t[i]) || t[i] == '.' || t[i] == '/' || t[i] == '$' || t[i] == '=' || t[i] == ',' || t[i] == '+'); i++ {
		if t[i] == '$' {
			last = i
		}
	}
	for t[i-1] == ',' || t[i-1] == '=' {
		i--
	}
	if size := i - last - 1; size < form[0] || size > form[1] {
		return 0
	}
	return i
}

// encoded examines a run of base64 or hexadecimal digits around start: when its text has a secret,
// the whole run is one.
func (p *pass) encoded(start int) int {
	t := p.text
	if p.inner || start < p.decoded {
		return 0
	}
	from, end := encodedRun(t, start, p.decoded)
	p.decoded = end
	if end-from < minBase64 || !beginsPrintable(t[from:end]) {
		return 0
	}
	run := t[from:min(end, from+maxSecret)]
	plain := unhex(run)
	if plain == nil {
		plain = unbase64(run)
	}
	if !bytes.ContainsAny(plain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return 0
	}
	q := pass{text: plain, want: p.want & (wantAPIKey | wantJWT | wantPrivateKey), inner: true}
	q.run()
	if len(q.found) == 0 {
		return 0
	}
	for n := 0; n < 2 && end < len(t) && t[end] == '='; n++ {
		end++
	}
	return p.add(q.found[0].Entity, from, end)
}

// beginsPrintable reports that the first bytes of an encoded run are printable, without allocation.
func beginsPrintable(run []byte) bool {
	var buf [12]byte
	if hexOnly(run[:16]) {
		for i := range 8 {
			buf[i] = nibble(run[2*i])<<4 | nibble(run[2*i+1])
		}
		return printable(buf[:8])
	}
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(run[:16], "-_") {
		encoding = base64.RawURLEncoding
	}
	n, err := encoding.Decode(buf[:], run[:16])
	return err == nil && printable(buf[:n])
}

func nibble(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}
