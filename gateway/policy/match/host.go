package match

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxHost bounds a host in bytes, as DNS does.
const maxHost = 253

// domains maps a host as the WHATWG URL standard does (domain to ASCII, not strict).
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule(), idna.VerifyDNSLength(false))

// Special are the schemes whose URLs always have a host, and in which some programs read \ as /.
// The host of a file URL is not contacted, so file is not among them.
var Special = []string{"http", "https", "ws", "wss", "ftp"}

// CutScheme splits a value after its scheme, which it returns in lower case.
func CutScheme(value string) (scheme, rest string, ok bool) {
	for i := 0; i < len(value); i++ {
		c := value[i] | 0x20
		switch {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= value[i] && value[i] <= '9' || value[i] == '+' || value[i] == '-' || value[i] == '.'):
		case i > 0 && value[i] == ':':
			return strings.ToLower(value[:i]), value[i+1:], true
		default:
			return "", "", false
		}
	}
	return "", "", false
}

// SplitPort splits an authority without user information.
func SplitPort(authority string) (host, port string, ok bool) {
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", "", false
		}
		host, rest := authority[:end+1], authority[end+1:]
		if rest == "" {
			return host, "", true
		}
		return host, rest[1:], rest[0] == ':' && digits(rest[1:])
	}
	host, port, found := strings.Cut(authority, ":")
	return host, port, !found || digits(port)
}

func digits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// Host returns the canonical spelling of a host: names in lower case and ASCII without a
// trailing dot, addresses as [netip.Addr] writes them, IPv4-mapped IPv6 addresses as IPv4.
func Host(host string) (string, bool) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", false
		}
		return addr.Unmap().String(), true
	}
	host = Unescape(host)
	if !utf8.ValidString(host) {
		return "", false
	}
	name, err := domains.ToASCII(host)
	if err != nil || strings.ContainsFunc(name, forbidden) {
		return "", false
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > maxHost || name[0] == '.' || strings.Contains(name, "..") || strings.HasSuffix(name, ".") {
		return "", false
	}
	if !endsInNumber(name) {
		return name, true
	}
	return parseIPv4(name)
}

// forbidden reports whether a character is forbidden in domains.
func forbidden(r rune) bool {
	return r <= ' ' || r >= 0x7F || strings.ContainsRune(`#/:<>?@[\]^|%`, r)
}

// endsInNumber reports whether the last label of a host is a number, so that it is an IPv4
// address or invalid.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if digits(last) {
		return true
	}
	_, ok := ipv4Number(last)
	return ok
}

// parseIPv4 parses an IPv4 address of one to four numbers, each decimal, octal or hexadecimal;
// the last number fills the remaining bytes.
func parseIPv4(name string) (string, bool) {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return "", false
	}
	var address uint64
	for i, part := range parts {
		n, ok := ipv4Number(part)
		if !ok {
			return "", false
		}
		last := i == len(parts)-1
		if !last {
			if n > 255 {
				return "", false
			}
			address |= n << (8 * (3 - i))
			continue
		}
		if n >= 1<<(8*(5-len(parts))) {
			return "", false
		}
		address |= n
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}).String(), true
}

// ipv4Number parses one number of an IPv4 address.
func ipv4Number(s string) (uint64, bool) {
	base := 10
	switch {
	case s == "":
		return 0, false
	case len(s) >= 2 && (s[:2] == "0x" || s[:2] == "0X"):
		if s, base = s[2:], 16; s == "" {
			return 0, true
		}
	case len(s) >= 2 && s[0] == '0':
		s, base = s[1:], 8
	}
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil || strings.ContainsAny(s, "+_") {
		return 0, false
	}
	return n, true
}

// Unescape decodes the percent escapes of a text once; a % without two hexadecimal digits is
// kept.
func Unescape(s string) string {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; i >= 0; i = strings.IndexByte(s, '%') {
		b.WriteString(s[:i])
		if i+2 < len(s) && Hex(s[i+1]) >= 0 && Hex(s[i+2]) >= 0 {
			b.WriteByte(byte(Hex(s[i+1])<<4 | Hex(s[i+2])))
			s = s[i+3:]
			continue
		}
		b.WriteByte('%')
		s = s[i+1:]
	}
	b.WriteString(s)
	return b.String()
}

// Hex returns the value of a hexadecimal digit, -1 for another byte.
func Hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
