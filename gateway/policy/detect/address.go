package detect

import (
	"bytes"
	"net/netip"
	"slices"
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
		// A letter behind a backslash may begin the name in DOMAIN\name@host.
		if n, _ := escapeIn(t, start); start+n < at && (n > 1 || n == 1 && bytes.IndexByte([]byte("nrt"), t[start]) >= 0) {
			start += n
		}
	}
	end := p.domain(at + 1)
	if start == at || at-start > maxLocal || t[at-1] == '.' || end < 0 || p.inAuthority(start) || p.messageID(start) {
		return at + 1
	}
	for end < len(t) && t[end] == '_' && t[start] == '_' && start+1 < at {
		start++ // of _name@host_
	}
	if repository(t[start:at], t[end:]) {
		return at + 1
	}
	return p.add(Email, start, end)
}

// maxRepository bounds the path of a repository, in bytes.
const maxRepository = 256

// repository reports that a user and what follows its host are the address of a repository, as in
// git@host:path, org-17@github.com:owner/name or deploy@host:owner/name.git.
func repository(user, rest []byte) bool {
	if len(rest) < 2 || rest[0] != ':' || !isWord(rest[1]) && rest[1] != '~' && rest[1] != '/' || isPort(rest) {
		return false
	}
	if string(user) == "git" || string(user) == "hg" {
		return rest[1] != '/'
	}
	i := 1
	for i < len(rest) && i < maxRepository && (isWord(rest[i]) || rest[i] == '/' || rest[i] == '.' || rest[i] == '-' || rest[i] == '~') {
		i++
	}
	path := bytes.TrimRight(rest[1:i], "./")
	organization, numbered := bytes.CutPrefix(user, []byte("org-"))
	return bytes.HasSuffix(path, []byte(".git")) ||
		numbered && bytes.IndexByte(path, '/') > 0 && len(bytes.Trim(organization, "0123456789")) == 0
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
		if labels > 1 && topLevel(t[start:end], plain, letters) && (end == len(t) || t[end] != '_' || closes(t, end)) {
			good = end
		} else if dash := bytes.IndexByte(t[start:end], '-'); dash > 0 && labels > 1 && plain && isDigit(t[start+dash+1]) &&
			topLevel(t[start:start+dash], true, lettersIn(t[start:start+dash])) {
			good = start + dash // a date or another number follows
		} else if labels > 1 && (letters > 0 || end < len(t) && isWord(t[end])) {
			good = -1
		}
		if end != i || i >= len(t) || t[i] != '.' {
			break
		}
		i++
	}
	return good
}

func lettersIn(label []byte) (n int) {
	for _, c := range label {
		if class[c]&letter != 0 {
			n++
		}
	}
	return n
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

// ipv4 checks the digits at start. It returns an address and its end, or 0.
func (p *pass) ipv4(start int) (addr netip.Addr, end int) {
	t := p.text
	i, parts := start, 0
	var four [4]byte
	for {
		n, value := 0, 0
		for i < len(t) && isDigit(t[i]) && n < 4 {
			value = value*10 + int(t[i]-'0')
			i++
			n++
		}
		if n == 0 || n > 3 || value > 255 || n > 1 && t[i-n] == '0' {
			return addr, 0
		}
		four[parts] = byte(value)
		if parts++; parts == 4 {
			break
		}
		if i >= len(t) || t[i] != '.' {
			return addr, 0
		}
		i++
	}
	if i < len(t) && !emphasized(t, start, i) && (isWord(t[i]) || (t[i] == '.' || t[i] == '-' || t[i] == '+') && i+1 < len(t) && isWord(t[i+1])) && !p.reverseName(i) {
		return addr, 0
	}
	if start > 0 && (t[start-1] == '.' || t[start-1] == '-' && start > 1 && isWord(t[start-2])) || p.versioned(start) {
		return addr, 0
	}
	return netip.AddrFrom4(four), i
}

// documentation are the ranges for examples in documents (RFC 5737, RFC 3849, RFC 9637).
var documentation = []netip.Prefix{
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"),
}

// nobodys reports an address that is the same for everybody or belongs to nobody, so that it is no
// personal data: loopback, unspecified and multicast addresses, netmasks and their inversions, the
// ranges for documents, and the object identifiers of certificates and management, which look
// like IPv4 addresses.
func nobodys(a netip.Addr) bool {
	a = a.Unmap()
	if a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() {
		return true
	}
	if a.Is4() {
		four := a.As4()
		switch [3]byte(four[:3]) {
		case [3]byte{2, 5, 4}, [3]byte{2, 5, 29}, [3]byte{1, 3, 6}:
			return true
		}
		if four[0] == 0 || four[0] >= 240 { // 0.0.0.255, 255.255.240.0
			return true
		}
	}
	return slices.ContainsFunc(documentation, func(p netip.Prefix) bool { return p.Contains(a) })
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

// ipv6 checks for an address around a colon. It returns the end of a finding, or the position after
// the colon: what is between other colons may be another value.
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
	if colons < 2 {
		return colon + 1
	}
	for end > start && (t[end-1] == '.' || t[end-1] == ':' && (end < 2 || t[end-2] != ':')) {
		end--
	}
	if start > 0 && (!p.free(start) || t[start-1] == ':' || t[start-1] == '.') || end < len(t) && (isWord(t[end]) || t[end] == ':') {
		return colon + 1
	}
	if addr, err := netip.ParseAddr(string(t[start:end])); err != nil || !addr.Is6() || nobodys(addr) || !p.plausible6(start, end) {
		return colon + 1
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
	case groups <= 2 && start > 1 && t[start-1] == '[' && (isWord(t[start-2]) || t[start-2] == ']' || t[start-2] == ')'):
		return false // a slice
	case groups == 1:
		return end-start == 3 && t[end-1] == '1' || longest >= 3
	case groups == 2:
		return longest >= 3
	}
	return true
}
