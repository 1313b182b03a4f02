package hostname

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// What is globally reachable; an address of IPv6 that leads to one of IPv4 is as reachable as that.
func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": true, "172.32.0.1": true, "100.128.0.1": true, "2606:2800:220:1::1": true, "::ffff:93.184.216.34": true, "64:ff9b::93.184.216.34": true,
		"127.0.0.1": false, "10.1.2.3": false, "169.254.169.254": false, "100.100.100.200": false, "192.0.0.1": false, "255.255.255.255": false, "224.0.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fd00:ec2::254": false, "ff02::1": false, "100::1": false, "100:0:0:1::1": false, "5f00::1": false, "4000::1": false,
		"::ffff:10.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b:1::10.0.0.1": false, "::ffff:0:10.0.0.1": false, "::10.0.0.1": false,
		"2002:a00:1::1": false, "2002:5db8:d822::1": false, "2001:0:a00:1::1": false, "2001:0:4136:e378:8000:63bf:f5ff:fffe": false, "2001:db8::1": false, "3fff::1": false,
		"2606:2800:220:1::1%eth0": false,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

// The dialer of package net checks the address at which the connection is made.
func TestTheConnectionIsChecked(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	permitted := false
	d := &Dialer{Permit: func(a netip.AddrPort) bool { return permitted && a.Addr().IsLoopback() }}
	if _, err := d.DialContext(t.Context(), "tcp", ln.Addr().String()); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("not permitted: %v", err)
	}
	permitted = true
	conn, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
