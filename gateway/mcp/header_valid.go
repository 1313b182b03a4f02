package mcp

import "strings"

// maxToken is the longest accepted name, in bytes.
const maxToken = 128

// IsToken reports whether s is a token, the form of the names of header fields and of
// authentication schemes, of at most 128 bytes.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= maxToken
}

// IsValue reports whether s can be the value of a header field: it has no line break and no
// control character except tabs.
func IsValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// framing are the fields that frame a message or belong to one connection.
var framing = [...]string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection",
	"Proxy-Authorization", "Proxy-Authenticate", "TE", "Trailer", "Upgrade", "Expect", "Accept-Encoding", "HTTP2-Settings",
}

// IsFraming reports whether a header field frames a message or belongs to one connection: only an HTTP
// client itself writes such a field.
func IsFraming(name string) bool {
	for _, f := range framing {
		if strings.EqualFold(f, name) {
			return true
		}
	}
	return false
}
