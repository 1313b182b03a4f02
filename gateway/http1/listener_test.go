package http1

import (
	"net"
	"net/netip"
	"testing"
)

// Connections are counted by address, those of a 64-bit IPv6 network together, and
// a connection that is closed twice is subtracted once.
func TestConnectionsAreCountedByNetwork(t *testing.T) {
	refused := 0
	l := NewListener(nil, Limits{
		PerAddress: func(a netip.Addr) int {
			if a == netip.MustParseAddr("192.0.2.9") {
				return 0
			}
			return 2
		},
		Refused: func(netip.Addr, int) { refused++ },
	})
	enter := func(addr string) (func(), bool) {
		return l.enter(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 1)))
	}
	var leave func()
	for _, tt := range []struct {
		addr string
		ok   bool
	}{
		{"192.0.2.1", true}, {"::ffff:192.0.2.1", true}, {"192.0.2.1", false}, {"192.0.2.2", true},
		{"2001:db8::1", true}, {"2001:db8::ffff:1", true}, {"2001:db8::2", false}, {"2001:db8:0:1::1", true},
		{"192.0.2.9", true}, {"192.0.2.9", true}, {"192.0.2.9", true},
	} {
		f, ok := enter(tt.addr)
		if ok != tt.ok {
			t.Errorf("%s: %v, want %v", tt.addr, ok, tt.ok)
		}
		if tt.addr == "192.0.2.1" && ok {
			leave = f
		}
	}
	leave()
	leave()
	if _, ok := enter("192.0.2.1"); !ok {
		t.Error("no room where a connection was closed")
	}
	if _, ok := enter("192.0.2.1"); ok {
		t.Error("a connection was counted as closed twice")
	}
	if refused != 3 {
		t.Errorf("%d were refused", refused)
	}
}
