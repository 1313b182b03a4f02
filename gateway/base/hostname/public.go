package hostname

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// special are the networks that are not globally reachable although they are in the range of global
// addresses: those of the IANA registries of special-purpose addresses, and the metadata service of a
// cloud provider. 6to4 and Teredo (in 2001::/23) embed IPv4 addresses and are in no use any more.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var (
	global = netip.MustParsePrefix("2000::/3")     // all global unicast addresses of IPv6
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // IPv4 addresses, for hosts that have IPv6 only
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Unwrap returns the IPv4 address that a mapped or NAT64 address of IPv6 leads to; other addresses
// unchanged.
func Unwrap(a netip.Addr) netip.Addr {
	if a.Zone() == "" && nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a.Unmap()
}

// Public reports whether an address is globally reachable.
func Public(a netip.Addr) bool {
	a = Unwrap(a)
	if !a.IsValid() || a.Zone() != "" || a.Is6() && !global.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// Dialer connects to hosts all of whose addresses are permitted: one that is not rejects the name as a
// whole. A name is resolved once and the address that was checked is dialed, so that a later change
// of the DNS record (DNS rebinding) has no effect. It does not change, and is safe for concurrent use.
type Dialer struct {
	// Permit reports whether an address may be dialed. It gets unwrapped addresses.
	Permit func(netip.AddrPort) bool
	// Lookup resolves names and Dial connects to an address; nil means the resolver and a dialer of
	// package net, which checks the address again.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// ErrNotPermitted is the error of a connection to an address that is not permitted.
var ErrNotPermitted = errors.New("an address of the host is not public, and not allowed")

// DialContext connects to the first address that responds.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	lookup, dial := d.Lookup, d.Dial
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	if dial == nil {
		dial = (&net.Dialer{Control: d.control}).DialContext
	}
	addrs := []netip.Addr{}
	if literal, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, literal)
	} else if addrs, err = lookup(ctx, "ip", host); err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if err := d.control(network, net.JoinHostPort(a.String(), port), nil); err != nil {
			return nil, err
		}
	}
	err = fmt.Errorf("%s has no address", host)
	for _, a := range addrs {
		var conn net.Conn
		if conn, err = dial(ctx, network, net.JoinHostPort(a.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// control rejects an address that is not permitted.
func (d *Dialer) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if a := Unwrap(at.Addr()); a.Zone() != "" || !d.Permit(netip.AddrPortFrom(a, at.Port())) {
		return ErrNotPermitted
	}
	return nil
}
