package upstream

import "strings"

// MediaType returns the media type of the body without parameters, in lower case;
// empty when the header has none.
func (r *HTTPResponse) MediaType() string {
	switch value := r.Header.Get("Content-Type"); value {
	case "application/json", "text/event-stream":
		return value
	default:
		media, _, _ := strings.Cut(value, ";")
		return strings.ToLower(strings.TrimSpace(media))
	}
}

// ValidFieldName reports whether s can be the name of a header field, or a part of one.
func ValidFieldName(s string) bool { return validName(s) }

// validName reports whether s is a token (RFC 9110, section 5.6.2).
func validName(s string) bool {
	for i := range len(s) {
		if !isToken[s[i]] {
			return false
		}
	}
	return s != ""
}

// validValue reports whether s is a valid field value: visible characters, spaces, tabs
// and bytes above ASCII, never a control character (RFC 9110, section 5.5).
func validValue(s string) bool {
	for i := range len(s) {
		if !isValue[s[i]] {
			return false
		}
	}
	return true
}

// isToken and isValue are the bytes that a field name and a field value may contain.
var isToken, isValue = func() (token, value [256]bool) {
	for c := range 256 {
		value[c] = c >= ' ' && c != 0x7f || c == '\t'
		token[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c < 0x7f && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return token, value
}()
