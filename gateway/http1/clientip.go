package http1

import (
	"fmt"
	"net/netip"
	"strings"
)

// Bounds of a proxy chain; a longer chain is invalid, so that the address of the TCP peer is
// used.
const (
	maxHops        = 64
	maxHeaderBytes = 8 << 10
)

// Values of client_address_header.
const (
	// HeaderAny prefers Forwarded and falls back to X-Forwarded-For.
	HeaderAny           = ""
	HeaderForwarded     = "forwarded"
	HeaderXForwardedFor = "x-forwarded-for"
)

// Resolver has the peers that may state a client address, and the header in which they do. The
// zero value trusts no peer. It is immutable and safe for concurrent use.
type Resolver struct {
	trusted []netip.Prefix
	header  string
}

// NewClientAddress compiles the CIDR strings of trusted_proxies and the value of client_address_header. A bare
// address counts as a prefix of its full length. The error names the first invalid value.
func NewClientAddress(cidrs []string, header string) (*Resolver, error) {
	r := &Resolver{header: header}
	if header != HeaderAny && header != HeaderForwarded && header != HeaderXForwardedFor {
		return nil, fmt.Errorf("client address header %q is neither %s nor %s", header, HeaderForwarded, HeaderXForwardedFor)
	}
	for _, s := range cidrs {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, aerr := netip.ParseAddr(s)
			if aerr != nil {
				return nil, fmt.Errorf("trusted proxy %q is neither a CIDR nor an address", s)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		r.trusted = append(r.trusted, p.Masked())
	}
	return r, nil
}

// Client returns the address of the client of a request that came from peer with the given values
// of the Forwarded and X-Forwarded-For headers.
//
// The headers are read only when peer is trusted. Forwarded takes precedence, unless one of them
// is selected: then the other one is ignored. The chain is walked from right to left to the first
// address that is not trusted; when all are, the leftmost is the client. A Forwarded without any for
// parameter names no client and counts as absent. A chain that cannot be parsed, or that hides an address that the walk needs, is ignored.
func (r *Resolver) Client(peer netip.Addr, forwarded, xForwardedFor []string) netip.Addr {
	peer = peer.Unmap().WithZone("")
	if len(r.trusted) == 0 || !r.trusts(peer) {
		return peer
	}
	switch r.header {
	case HeaderForwarded:
		xForwardedFor = nil
	case HeaderXForwardedFor:
		forwarded = nil
	}
	values, node := forwarded, forwardedNode
	if !hasFor(values) {
		values, node = xForwardedFor, parseNode
	}
	if client, ok := r.walk(values, node); ok {
		return client
	}
	return peer
}

// Conflict reports whether a trusted peer sent both headers, with different clients, while none
// of them is selected: proxies that maintain one of them often forward the other one unchanged
// from the client.
func (r *Resolver) Conflict(peer netip.Addr, forwarded, xForwardedFor []string) bool {
	if r.header != HeaderAny || !hasFor(forwarded) || len(xForwardedFor) == 0 {
		return false
	}
	return r.Client(peer, forwarded, nil) != r.Client(peer, nil, xForwardedFor)
}

// Network returns the addresses that count as one client in the limits of unidentified callers:
// an IPv4 address, or the /64 of an IPv6 address, because one subscriber has the whole /64.
func Network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() && !a.Is4In6() {
		bits = 64
	}
	return netip.PrefixFrom(a.WithZone(""), bits).Masked()
}

// Trusts reports whether an address is that of a trusted proxy.
func (r *Resolver) Trusts(a netip.Addr) bool { return r.trusts(a.Unmap().WithZone("")) }

// Limit returns limit for the address of one client, and 0, which means no limit, for loopback
// and trusted proxies, which carry many clients.
func (r *Resolver) Limit(a netip.Addr, limit int) int {
	if a.IsLoopback() || r.Trusts(a) {
		return 0
	}
	return limit
}

func (r *Resolver) trusts(a netip.Addr) bool {
	for _, p := range r.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// walk goes through the elements of all header values from the last to the first. Every element
// must be valid, also those left of the result: a partly invalid header is ignored.
func (r *Resolver) walk(values []string, node func(string) (netip.Addr, bool)) (netip.Addr, bool) {
	total := 0
	for _, v := range values {
		total += len(v)
	}
	if total == 0 || total > maxHeaderBytes {
		return netip.Addr{}, false
	}
	var client netip.Addr
	found, hops := false, 0
	for i := len(values) - 1; i >= 0; i-- {
		elements, ok := splitQuoted(values[i], ',')
		if !ok {
			return netip.Addr{}, false
		}
		for j := len(elements) - 1; j >= 0; j-- {
			if hops++; hops > maxHops {
				return netip.Addr{}, false
			}
			if found {
				continue
			}
			a, ok := node(strings.TrimSpace(elements[j]))
			if !ok {
				return netip.Addr{}, false
			}
			client = a
			found = !r.trusts(a)
		}
	}
	return client, client.IsValid()
}

// hasFor reports whether a Forwarded header has a for parameter in any element.
func hasFor(values []string) bool {
	for _, v := range values {
		if len(v) > maxHeaderBytes || strings.Contains(strings.ToLower(v), "for=") {
			return true
		}
	}
	return false
}

// forwardedNode parses the for= parameter of one Forwarded element.
func forwardedNode(element string) (netip.Addr, bool) {
	pairs, ok := splitQuoted(element, ';')
	if !ok {
		return netip.Addr{}, false
	}
	node, seen := "", false
	for _, pair := range pairs {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if seen { // two for= in one element are ambiguous
			return netip.Addr{}, false
		}
		node, seen = value, true
	}
	if !seen {
		return netip.Addr{}, false
	}
	if strings.HasPrefix(node, `"`) {
		if len(node) < 2 || !strings.HasSuffix(node, `"`) || strings.Contains(node, `\`) {
			return netip.Addr{}, false
		}
		node = node[1 : len(node)-1]
	}
	return parseNode(node)
}

// parseNode parses an address with or without a port: 192.0.2.1, 192.0.2.1:4711, [2001:db8::1],
// [2001:db8::1]:4711, 2001:db8::1. Zones, "unknown" and obfuscated names are rejected.
func parseNode(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return clean(ap.Addr())
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s = s[1 : len(s)-1]
		if !strings.Contains(s, ":") {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return clean(a)
}

func clean(a netip.Addr) (netip.Addr, bool) {
	if a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// splitQuoted splits at sep outside of quoted strings. ok is false for an unterminated quote.
func splitQuoted(s string, sep byte) (parts []string, ok bool) {
	quoted := false
	start := 0
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:]), !quoted
}

// Text returns the text of an address, which usually is a substring of peer, so that nothing is
// allocated.
func Text(a netip.Addr, peer string) string {
	var room [64]byte
	text := a.AppendTo(room[:0])
	if n := len(text); len(peer) > n && peer[n] == ':' && string(text) == peer[:n] {
		return peer[:n]
	}
	return string(text)
}
