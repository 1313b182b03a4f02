package detect

import (
	"net/netip"
	"unicode"
	"unicode/utf8"
)

// Lengths of mail addresses (RFC 5321).
const (
	maxLocal  = 64
	maxDomain = 253
	maxLabel  = 63
)

// email checks for a mail address around an @.
func (p *pass) email(at int) int {
	t := p.text
	start := at
	for start > 0 && at-start <= maxLocal {
		c := t[start-1]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeLastRune(t[:start])
			if !foreignLetter(r) {
				break
			}
			start -= n
			continue
		}
		if !isAlnum(c) && !localMark[c] || c == '.' && t[start] == '.' {
			break
		}
		start--
	}
	for start < at && t[start] < utf8.RuneSelf && !isAlnum(t[start]) && t[start] != '_' && (t[start] != '+' || start+1 == at) {
		start++
	}
	if start < at {
		start = p.unescaped(start, at)
	}
	end := p.domain(at + 1)
	if start == at || at-start > maxLocal || t[at-1] == '.' || end < 0 || p.inAuthority(start) || p.messageID(start) {
		return at + 1
	}
	local, rest := t[start:at], t[end:]
	if len(rest) > 1 && rest[0] == ':' && (isWord(rest[1]) || rest[1] == '~') && !isPort(rest) &&
		(string(local) == "git" || string(local) == "hg") { // git@host:path is a repository
		return at + 1
	}
	return p.add(Email, start, end)
}

// localMark has the characters that a local part may contain besides letters and digits. The
// standard also allows quotes, slashes and others; in texts these are far more often around an
// address than in it.
var localMark = [128]bool{'.': true, '_': true, '%': true, '+': true, '-': true, '\'': true, '&': true, '!': true, '#': true, '~': true, '$': true}

// foreignLetter reports letters beyond ASCII of scripts that write spaces, so that they belong to
// an address they touch.
func foreignLetter(r rune) bool {
	return r >= 0xC0 && r < 0x2E80 && (unicode.IsLetter(r) || unicode.Is(unicode.Mn, r))
}

func isPort(rest []byte) bool {
	i := 1
	for i < len(rest) && isDigit(rest[i]) {
		i++
	}
	return i > 1 && (i == len(rest) || !isWord(rest[i]) && rest[i] != '/')
}

// domain returns the end of the domain name that begins at i, -1 when there is none.
func (p *pass) domain(i int) int {
	t := p.text
	good, labels := -1, 0
	for begin := i; i <= len(t) && i-begin <= maxDomain; {
		start, plain, letters := i, true, 0
		for i < len(t) && i-start <= maxLabel {
			c := t[i]
			if c >= utf8.RuneSelf {
				r, n := utf8.DecodeRune(t[i:])
				if !foreignLetter(r) {
					break
				}
				i += n
				letters++
				plain = false
				continue
			}
			if !isAlnum(c) && c != '-' {
				break
			}
			if class[c]&letter != 0 {
				letters++
			}
			i++
		}
		end := i
		for end > start && t[end-1] == '-' {
			end--
		}
		if end == start || t[start] == '-' || i-start > maxLabel {
			break
		}
		labels++
		if labels > 1 && topLevel(t[start:end], plain, letters) && (end == len(t) || t[end] != '_') {
			good = end
		} else if labels > 1 {
			good = -1
		}
		if end != i || i >= len(t) || t[i] != '.' {
			break
		}
		i++
	}
	return good
}

// topLevel reports whether a label can end a domain name: letters or an internationalized label,
// and not an ending of file names.
func topLevel(label []byte, plain bool, letters int) bool {
	if len(label) > 4 && string(label[:4]) == "xn--" {
		return true
	}
	if !plain {
		return letters >= 2
	}
	if letters != len(label) || letters < 2 || letters > 24 {
		return false
	}
	var low [24]byte
	return !notTopLevel[string(low[:copy(low[:], before(low[:], label, len(label)))])]
}

// notTopLevel has endings of file and unit names that follow an @ in programs: icon@2x.png,
// getty@tty1.service.
var notTopLevel = map[string]bool{
	"png": true, "jpg": true, "jpeg": true, "gif": true, "svg": true, "webp": true, "ico": true, "js": true, "ts": true, "jsx": true, "tsx": true,
	"css": true, "scss": true, "json": true, "yaml": true, "yml": true, "xml": true, "html": true, "htm": true, "txt": true, "pdf": true, "map": true,
	"service": true, "socket": true, "timer": true, "mount": true, "target": true, "device": true, "conf": true, "log": true, "lock": true, "exe": true,
	"dll": true, "jar": true, "class": true, "tgz": true, "gz": true, "tar": true, "csv": true, "sql": true, "go": true, "java": true, "cpp": true, "php": true,
}

// inAuthority reports whether start is in the user part of a URL: the text to the left of the @
// in https://user:secret@host is not a mail address.
func (p *pass) inAuthority(start int) bool {
	t := p.text
	for i := start; i > 0 && start-i < 2*maxLocal; i-- {
		switch c := t[i-1]; {
		case c == '/':
			return i >= 3 && t[i-2] == '/' && t[i-3] == ':'
		case c <= ' ' || c == '?' || c == '&' || c == '=' || c == '"' || c == '<' || c == '@' || c == ',' || c == ';':
			return false
		}
	}
	return false
}

// messageID reports whether the name of a header with message ids precedes start.
func (p *pass) messageID(start int) bool {
	var buf [24]byte
	return start > 0 && p.text[start-1] == '<' &&
		messageIDWords.in(p.context(buf[:], start))
}

// messageIDWords are the headers whose values look like mail addresses.
var messageIDWords = newVocabulary("messageIDWords")

// ipv4 checks the digits at start. It returns the end of an address, or 0.
func (p *pass) ipv4(start int) int {
	t := p.text
	i, parts := start, 0
	for {
		n, value := 0, 0
		for i < len(t) && isDigit(t[i]) && n < 4 {
			value = value*10 + int(t[i]-'0')
			i++
			n++
		}
		if n == 0 || n > 3 || value > 255 || n > 1 && t[i-n] == '0' {
			return 0
		}
		if parts++; parts == 4 {
			break
		}
		if i >= len(t) || t[i] != '.' {
			return 0
		}
		i++
	}
	if i < len(t) && (isWord(t[i]) || (t[i] == '.' || t[i] == '-' || t[i] == '+') && i+1 < len(t) && isWord(t[i+1])) && !p.reverseName(i) {
		return 0
	}
	if start > 0 && (t[start-1] == '.' || isWord(t[start-1]) || t[start-1] == '-' && start > 1 && isWord(t[start-2])) || p.versioned(start) {
		return 0
	}
	return i
}

// reverseName reports whether an address is followed by a host name that contains it, such as
// 10.0.0.1.nip.io.
func (p *pass) reverseName(i int) bool {
	return p.text[i] == '.' && i+1 < len(p.text) && class[p.text[i+1]]&letter != 0
}

// versionWords precede four numbers that are not an address.
var versionWords = newVocabulary("versionWords")

// addressWords precede addresses.
var addressWords = newVocabulary("addressWords")

// versioned reports whether the text before start makes four numbers a version: a word for it, or
// a name and a slash as in Chrome/120.0.0.0.
func (p *pass) versioned(start int) bool {
	t := p.text
	if start >= 2 && t[start-1] == '/' && class[t[start-2]]&letter != 0 {
		i := start - 2
		for i > 0 && start-i < 24 && isAlnum(t[i-1]) {
			i--
		}
		if isUpper(t[i]) && (i == 0 || t[i-1] != '/') {
			return true
		}
	}
	if start >= 2 && t[start-1] == '=' && t[start-2] == '=' { // a pinned dependency
		return true
	}
	var buf [24]byte
	near := p.context(buf[:], start)
	return versionWords.in(near) && !addressWords.in(near)
}

// ipv6 checks for an address around a colon.
func (p *pass) ipv6(colon int) int {
	t := p.text
	start := colon
	for start > 0 && colon-start < 5 && isHex(t[start-1]) {
		start--
	}
	end, colons := start, 0
	for end < len(t) && end-start < 46 && (isHex(t[end]) || t[end] == ':' || t[end] == '.') {
		if t[end] == ':' {
			colons++
		}
		end++
	}
	next := max(end, colon+1)
	if colons < 2 {
		return min(next, colon+1)
	}
	for end > start && (t[end-1] == '.' || t[end-1] == ':' && (end < 2 || t[end-2] != ':')) {
		end--
	}
	if start > 0 && (isWord(t[start-1]) || t[start-1] == ':' || t[start-1] == '.') || end < len(t) && (isWord(t[end]) || t[end] == ':') {
		return next
	}
	if addr, err := netip.ParseAddr(string(t[start:end])); err != nil || !addr.Is6() || !p.plausible6(start, end) {
		return next
	}
	return p.add(IPAddress, start, end)
}

// plausible6 distinguishes an address from names joined by :: in programs, slices and hardware
// addresses.
func (p *pass) plausible6(start, end int) bool {
	t := p.text
	groups, digits, longest, n, pairs := 0, 0, 0, 0, true
	for i := start; i <= end; i++ {
		if i < end && t[i] != ':' {
			n++
			if isDigit(t[i]) {
				digits++
			}
			continue
		}
		if n > 0 {
			groups++
			longest = max(longest, n)
			pairs = pairs && n == 2
		}
		n = 0
	}
	switch {
	case groups == 8 && pairs, digits == 0 && groups < 4:
		return false
	case start > 1 && t[start-1] == '[' && (isWord(t[start-2]) || t[start-2] == ']' || t[start-2] == ')'):
		return false // a slice
	case groups == 1:
		return end-start == 3 && t[end-1] == '1' || longest >= 3
	case groups == 2:
		return longest >= 3
	}
	return true
}
