package arguments

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	// maxAuthority bounds host and port in bytes, with escapes.
	maxAuthority = 1 << 10
	// maxHost bounds a host in bytes, as DNS does.
	maxHost = 253
)

// hostCost returns the cost of hostOf for a value beside its plain reading, in bytes of plain
// reading: an internationalized host costs about 32 times as much.
func hostCost(value string) int { return 32 * min(len(value), maxAuthority) }

// domains maps a host as the WHATWG URL standard does (domain to ASCII, not strict).
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule(), idna.VerifyDNSLength(false))

// special are the schemes whose URLs always have a host, and in which some programs read \ as /.
// The host of a file URL is not contacted, so file is not among them.
var special = []string{"http", "https", "ws", "wss", "ftp"}

// hosts is a compiled host_in.
type hosts struct {
	exact    map[string]bool
	suffixes map[string]bool // each begins with a dot
}

// newHosts compiles entries that checkHost has accepted.
func newHosts(list []string) hosts {
	h := hosts{exact: map[string]bool{}, suffixes: map[string]bool{}}
	for _, entry := range list {
		name, wildcard := strings.CutPrefix(entry, "*.")
		host, _ := parseHost(name)
		if wildcard {
			h.suffixes["."+host] = true
		} else {
			h.exact[host] = true
		}
	}
	return h
}

func (h *hosts) has(host string) bool {
	if h.exact[host] {
		return true
	}
	// A host never begins with a dot, so there is a label before each suffix.
	for at := strings.IndexByte(host, '.'); at > 0; {
		if h.suffixes[host[at:]] {
			return true
		}
		next := strings.IndexByte(host[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return false
}

// hostOf returns the host of a value in its canonical spelling. The value is a URL with a host, a
// host, or host:port. ok is false for a value that programs parse in different ways, or that is
// invalid.
func hostOf(value string) (host string, ok bool) {
	authority, ok := authorityOf(value)
	if !ok || authority == "" || len(authority) > maxAuthority || strings.Contains(authority, "@") {
		return "", false
	}
	host, port, ok := splitPort(authority)
	if !ok {
		return "", false
	}
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 64); err != nil || n > 65535 {
			return "", false
		}
	}
	return parseHost(host)
}

// authorityOf returns the authority of a value: user information, host and port.
func authorityOf(value string) (string, bool) {
	value = strings.TrimFunc(value, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(value, "\t\n\r") {
		value = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(value)
	}
	scheme, rest, ok := cutScheme(value)
	switch {
	case ok && slices.Contains(special, scheme):
		rest = strings.TrimLeft(rest, "/")
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			rest = rest[:i]
		}
		// A program that reads \ as / finds a host that ends there, and another program one that
		// contains it, or that begins after a later @.
		return rest, !strings.Contains(rest, `\`)
	case ok && scheme == "file":
		return "", false
	case ok && strings.HasPrefix(rest, "//"):
		rest = rest[2:]
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			rest = rest[:i]
		}
		return rest, true
	}
	// Without a scheme: only a host or host:port.
	return value, !strings.ContainsAny(value, `/\?#`)
}

// cutScheme splits a value after its scheme, which it returns in lower case.
func cutScheme(value string) (scheme, rest string, ok bool) {
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

// splitPort splits an authority without user information.
func splitPort(authority string) (host, port string, ok bool) {
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

// parseHost returns the canonical spelling of a host: names in lower case and ASCII without a
// trailing dot, addresses as [netip.Addr] writes them, IPv4-mapped IPv6 addresses as IPv4.
func parseHost(host string) (string, bool) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", false
		}
		return addr.Unmap().String(), true
	}
	host = decodeEscapes(host)
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
