package match

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxURI bounds a URI that is read, in bytes; a longer one is unclear.
const maxURI = 8 << 10

// maxAuthority bounds host and port in bytes, with escapes.
const maxAuthority = 1 << 10

// maxFolded bounds a path in other letters than those of ASCII that is not below a prefix, in bytes; a longer
// one is unclear. Compatibility forms are up to 18 characters for one.
const maxFolded = 1 << 10

// maxDecodings bounds how often the escapes of a URI are decoded.
const maxDecodings = 3

// defaultPorts are the ports that a URL need not name.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// URIMatch is the result of comparing a URI with a prefix. What restricts acts on Yes and Unclear, what
// permits on Yes only.
type URIMatch uint8

// The results. Unclear is a URI of the scheme of the prefix, or without a readable scheme, that servers
// may read as one below the prefix and as one beside it.
const (
	No URIMatch = iota
	Yes
	Unclear
)

// URIPrefix is a compiled uri_prefix. It is immutable and safe for concurrent use; the zero value
// matches nothing.
type URIPrefix struct {
	scheme, host string
	path         string // without the last slash; "" is the root
	loose        string // path as the laxest of servers reads it
	opaque       bool   // there is no slash after the scheme
	every        bool   // the scheme alone is given
}

// CompileURI compiles a prefix: a scheme alone (notes: or notes://), or a URI without user information,
// query and fragment. It matches the URI itself and those below it, so a slash at its end has no
// meaning.
func CompileURI(prefix string) (URIPrefix, error) {
	scheme, rest, ok := uriScheme(prefix)
	switch {
	case !ok:
		return URIPrefix{}, errors.New("the prefix does not begin with a scheme, such as file:// or https://")
	case len(prefix) > maxURI:
		return URIPrefix{}, fmt.Errorf("the prefix is longer than %d bytes", maxURI)
	case strings.ContainsAny(rest, "?#"):
		return URIPrefix{}, errors.New("the prefix has a query or a fragment; it may only have a scheme, a host and a path")
	case rest == "" || rest == "//":
		return URIPrefix{scheme: scheme, every: true}, nil
	}
	u, ok := splitURI(scheme, rest)
	if !ok {
		return URIPrefix{}, errors.New("the host of the prefix is not valid, is missing, or has user information")
	}
	p := URIPrefix{scheme: scheme, host: u.host, opaque: u.opaque}
	path := Unescape(u.path)
	if p.path, ok = u.resolve(path); ok && Unescape(path) == path {
		p.loose, ok = u.resolve(loosely(path))
	} else {
		ok = false
	}
	if !ok {
		return URIPrefix{}, errors.New("the path of the prefix has no canonical form: it has a backslash, a control character, bytes that are not UTF-8, escapes of escapes, .. above its beginning, or a segment such as ... or ..;")
	}
	return p, nil
}

// Match compares a URI with the prefix after both were brought into canonical form:
//
//   - scheme and host in lower case, host names in ASCII without a dot at their end, addresses in their
//     usual spelling, the default port of the scheme left out, another port compared; localhost and no
//     host are equal for file, and so are file:/x and file:///x;
//   - escapes of the path decoded, up to 3 times;
//   - dot segments and doubled slashes resolved;
//   - without query and fragment.
//
// The prefix ends at the end of a segment, and the case of paths counts.
//
// Unclear is a URI of this scheme whose readings disagree: escapes decoded once, twice and three times; query
// and fragment taken for a part of the path; and where those say No, letters of another case, compatibility
// forms, parameters of segments, dots and spaces at their end. Unclear is also a URI without a canonical form:
//
//   - no scheme, or one of one letter (a drive); the scheme of the prefix within another one;
//   - more than 8 KiB, a host above 1 KiB, 1 KiB of a path beyond ASCII that is not below the prefix;
//   - controls (NUL included), backslashes, bytes that are not UTF-8;
//   - user information, a port that is not a number, a host of no valid form; a web URL without a host, a file
//     URL with a host that the prefix does not have;
//   - .. after a doubled slash, or above the beginning of what is neither a web nor a file path; two slashes at the
//     beginning of a path without a host; segments such as ... and ..;x
func (p *URIPrefix) Match(uri string) URIMatch {
	u := ParseURI(uri)
	return p.MatchURI(&u)
}

// MatchURI is [URIPrefix.Match] for a URI that is compared with several prefixes.
func (p *URIPrefix) MatchURI(u *URI) URIMatch {
	switch {
	case p.scheme == "":
		return No
	case u.scheme == "":
		return Unclear
	case u.scheme != p.scheme:
		for scheme, rest, ok := uriScheme(u.rest); ok; scheme, rest, ok = uriScheme(rest) {
			if scheme == p.scheme {
				return Unclear
			}
		}
		return No
	case p.every:
		return Yes
	case !u.clear || u.opaque != p.opaque:
		return Unclear
	}
	result := p.read(u.paths, "/")
	switch {
	case result == Unclear || len(u.wholes) > 0 && p.read(u.wholes, "/?#") != result:
		return Unclear
	case u.host != p.host:
		if u.host == "" || p.host == "" || u.scheme == "file" {
			return Unclear
		}
		return No
	case result == No:
		if lax, ok := u.lax(); !ok || below(lax, p.loose, "/?#") {
			return Unclear
		}
	}
	return result
}

// read compares the readings of a path. A segment ends at one of ends.
func (p *URIPrefix) read(paths []string, ends string) (result URIMatch) {
	for i, path := range paths {
		got := No
		if below(path, p.path, ends) {
			got = Yes
		}
		if i > 0 && got != result {
			return Unclear
		}
		result = got
	}
	return result
}

// URI is a URI that was read. It is used by one goroutine at a time.
type URI struct {
	scheme string // "" for none
	rest   string // after the scheme
	splitted
	clear  bool     // it has a canonical form
	paths  []string // the readings of its path: with the escapes decoded once, twice, three times
	wholes []string // of its path with query and fragment, if it has one
	last   string   // the path, decoded
	loose  *string  // of lax
}

// ParseURI reads a URI. Every text is one.
func ParseURI(uri string) (u URI) {
	var ok bool
	if u.scheme, u.rest, ok = uriScheme(uri); !ok {
		return URI{}
	}
	if len(uri) > maxURI {
		return u
	}
	if u.splitted, ok = splitURI(u.scheme, u.rest); !ok {
		return u
	}
	path := u.path
	if at := strings.IndexAny(u.path, "?#"); at >= 0 {
		path = u.path[:at]
		if u.wholes, _, ok = u.readings(u.path); !ok {
			return u
		}
	}
	u.paths, u.last, u.clear = u.readings(path)
	return u
}

// readings returns the readings of a path, and the path with all escapes decoded.
func (u *splitted) readings(path string) (resolved []string, last string, ok bool) {
	for i := range maxDecodings {
		decoded := Unescape(path)
		if i > 0 && decoded == path {
			break
		}
		path = decoded
		r, ok := u.resolve(path)
		if !ok {
			return nil, "", false
		}
		resolved = append(resolved, r)
	}
	return resolved, path, Unescape(path) == path
}

// lax returns the path as the laxest of servers reads it.
func (u *URI) lax() (string, bool) {
	if u.loose == nil {
		lax := unresolved
		if isASCII(u.last) || len(u.last) <= maxFolded {
			if r, ok := u.resolve(loosely(u.last)); ok {
				lax = r
			}
		}
		u.loose = &lax
	}
	return *u.loose, *u.loose != unresolved
}

// unresolved is no path.
const unresolved = "\x00"

// below reports whether a path is prefix, or begins with it and one of ends.
func below(path, prefix, ends string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || prefix == "" || strings.IndexByte(ends, rest[0]) >= 0)
}

// splitted is a URI after its scheme was read: its host in canonical form and its path as it stands,
// with query and fragment.
type splitted struct {
	host, path string
	opaque     bool
	web        bool // of one of the Special schemes
}

// uriScheme cuts the scheme off. A scheme of one letter is a drive.
func uriScheme(uri string) (scheme, rest string, ok bool) {
	scheme, rest, ok = CutScheme(uri)
	return scheme, rest, ok && len(scheme) > 1
}

// maxLaxScheme bounds the text in which LaxScheme looks for a scheme, in bytes.
const maxLaxScheme = 1 << 10

// LaxScheme returns the scheme in lower case that the laxest of parsers may find in a URI without a valid
// one: with escapes, spaces, controls, invisible characters or letters of other widths before its colon.
// It is empty for none.
func LaxScheme(uri string) string {
	for range maxDecodings + 1 {
		plain := strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, uri)
		plain = fold(plain[:min(len(plain), maxLaxScheme)])
		if scheme, _, ok := CutScheme(plain); ok {
			return scheme
		}
		if uri = Unescape(plain); uri == plain {
			break
		}
	}
	return ""
}

func splitURI(scheme, rest string) (u splitted, ok bool) {
	u = splitted{path: rest, web: slices.Contains(Special, scheme)}
	if after, hosted := strings.CutPrefix(rest, "//"); hosted {
		end := strings.IndexAny(after, "/?#")
		if end < 0 {
			end = len(after)
		}
		if u.host, ok = uriHost(scheme, after[:end], u.web); !ok {
			return u, false
		}
		u.path = after[end:]
	} else {
		u.opaque = !strings.HasPrefix(rest, "/")
	}
	return u, !(u.web && u.host == "") && !(u.opaque && scheme == "file")
}

// uriHost returns the host in canonical form, with a space and the port unless that is the default one;
// "" for none.
func uriHost(scheme, authority string, web bool) (string, bool) {
	host, port, ok := SplitPort(authority)
	if !ok || len(authority) > maxAuthority || strings.Contains(authority, "@") {
		return "", false
	}
	if port = strings.TrimLeft(port, "0"); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n > 65535 {
			return "", false
		}
	}
	switch {
	case host == "":
		return "", port == "" && !web
	case web || scheme == "file" || host[0] == '[':
		if host, ok = Host(host); !ok {
			return "", false
		}
	default: // a name of the server's own
		for range maxDecodings {
			host = Unescape(host)
		}
		valid := utf8.ValidString(host)
		host = strings.TrimSuffix(fold(host), ".")
		if !valid || host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= 0x7F && forbidden(r) }) {
			return "", false
		}
	}
	switch {
	case scheme == "file" && host == "localhost" && port == "":
		host = ""
	case port != "" && port != defaultPorts[scheme]:
		host += " " + port
	}
	return host, true
}

// resolve returns a decoded path without dot segments, doubled slashes and the last slash.
func (u *splitted) resolve(path string) (string, bool) {
	if !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7F || r == '\\' }) {
		return "", false
	}
	if !u.opaque {
		path = strings.TrimPrefix(path, "/")
	}
	if u.host == "" && strings.HasPrefix(path, "/") {
		return "", false
	}
	out := make([]byte, 0, len(path)+1)
	doubled, deep := false, 0
	for path != "" {
		segment, rest, more := strings.Cut(path, "/")
		path = rest
		bare, _, parameters := strings.Cut(segment, ";")
		switch {
		case segment == "":
			doubled = doubled || more
		case segment == ".":
		case segment == "..":
			switch {
			case doubled || deep == 0 && (u.opaque || u.host != "" && !u.web):
				return "", false
			case deep > 0:
				out, deep = out[:bytes.LastIndexByte(out, '/')], deep-1
			}
		case strings.Trim(segment, " .") == "" || parameters && (bare == "." || bare == ".."):
			return "", false
		default:
			out, deep = append(append(out, '/'), segment...), deep+1
		}
	}
	return string(out), true
}

// loosely returns a decoded path as the laxest of servers reads it: without regard to case, to
// compatibility forms and invisible characters, to parameters of segments and to dots and spaces at their
// end.
func loosely(path string) string {
	segments := strings.Split(fold(path), "/")
	for i, s := range segments {
		s, _, _ = strings.Cut(s, ";")
		if strings.Trim(s, ".") != "" {
			s = strings.TrimRight(s, " .")
		}
		segments[i] = s
	}
	return strings.Join(segments, "/")
}

// fold returns a text without regard to case, compatibility forms and invisible characters.
func fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, norm.NFKC.String(s))
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}
