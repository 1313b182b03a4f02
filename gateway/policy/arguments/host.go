package arguments

import (
	"slices"
	"strconv"
	"strings"

	"svc/gateway/policy/match"
)

// maxAuthority bounds host and port in bytes, with escapes.
const maxAuthority = 1 << 10

// hostCost returns the cost of hostOf for a value beside its plain reading, in bytes of plain
// reading: an internationalized host costs about 32 times as much.
func hostCost(value string) int { return 32 * min(len(value), maxAuthority) }

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
		host, _ := match.Host(name)
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
	host, port, ok := match.SplitPort(authority)
	if !ok {
		return "", false
	}
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 64); err != nil || n > 65535 {
			return "", false
		}
	}
	return match.Host(host)
}

// authorityOf returns the authority of a value: user information, host and port.
func authorityOf(value string) (string, bool) {
	value = strings.TrimFunc(value, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(value, "\t\n\r") {
		value = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(value)
	}
	scheme, rest, ok := match.CutScheme(value)
	switch {
	case ok && slices.Contains(match.Special, scheme):
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
