package upstream

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns at most limit bytes of untrusted text for a log, truncated at a
// character, with control characters escaped.
func Printable[T string | []byte](text T, limit int) string {
	s := string(text[:min(len(text), limit+utf8.UTFMax)])
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		if i+size > limit {
			break
		}
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// LogURL returns a URL for a log: without user and fragment, and with an ellipsis instead
// of its query, which may contain a secret. A text that is not a URL is omitted.
func LogURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a valid URL)"
	}
	query := u.RawQuery != ""
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	s := Printable(u.String(), 512)
	if query {
		s += "?…"
	}
	return s
}
