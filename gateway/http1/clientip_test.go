package http1

import (
	"net/netip"
	"strings"
	"testing"
)

func TestClient(t *testing.T) {
	proxies := []string{"10.0.0.0/8", "2001:db8:ffff::/48", "192.0.2.7"}
	long := strings.Repeat("203.0.113.9, ", 1000) + "203.0.113.9"
	tests := []struct {
		name      string
		peer      string
		forwarded []string
		xff       []string
		want      string
	}{
		{"no header: the TCP peer", "10.0.0.1", nil, nil, "10.0.0.1"},
		{"untrusted peer states nothing", "198.51.100.5", []string{"for=203.0.113.1"}, []string{"203.0.113.2"}, "198.51.100.5"},
		{"x-forwarded-for from a trusted peer", "10.0.0.1", nil, []string{"203.0.113.2"}, "203.0.113.2"},
		{"forwarded is preferred", "10.0.0.1", []string{"for=203.0.113.1"}, []string{"203.0.113.2"}, "203.0.113.1"},
		{"right to left to the first untrusted", "10.0.0.1", nil, []string{"1.2.3.4, 203.0.113.2, 10.1.1.1"}, "203.0.113.2"},
		{"several header lines are one chain", "10.0.0.1", nil, []string{"1.2.3.4", "203.0.113.2", "10.1.1.1"}, "203.0.113.2"},
		{"all trusted: the leftmost", "10.0.0.1", nil, []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		{"a single trusted address", "192.0.2.7", nil, []string{"203.0.113.2"}, "203.0.113.2"},
		{"IPv6 in brackets with a port", "2001:db8:ffff::1", []string{`for="[2001:db8::17]:4711"`}, nil, "2001:db8::17"},
		{"mapped IPv4 is IPv4", "::ffff:10.0.0.1", nil, []string{"::ffff:203.0.113.2"}, "203.0.113.2"},
		{"port on IPv4", "10.0.0.1", nil, []string{"203.0.113.2:81"}, "203.0.113.2"},
		{"other parameters are skipped", "10.0.0.1", []string{"proto=https; For=203.0.113.1;by=10.0.0.1"}, nil, "203.0.113.1"},
		{"invalid forwarded falls back to the peer", "10.0.0.1", []string{`for="[::1]:x"`}, []string{"203.0.113.2"}, "10.0.0.1"},
		{"unknown falls back to the peer", "10.0.0.1", []string{"for=unknown"}, nil, "10.0.0.1"},
		{"obfuscated falls back to the peer", "10.0.0.1", []string{"for=_hidden"}, nil, "10.0.0.1"},
		{"unterminated quote", "10.0.0.1", []string{`for="203.0.113.1`}, nil, "10.0.0.1"},
		{"two for in one element", "10.0.0.1", []string{"for=203.0.113.1;for=203.0.113.3"}, nil, "10.0.0.1"},
		{"no for at all", "10.0.0.1", []string{"proto=https"}, nil, "10.0.0.1"},
		{"rubbish on the right", "10.0.0.1", nil, []string{"203.0.113.2, nonsense"}, "10.0.0.1"},
		{"empty element", "10.0.0.1", nil, []string{"203.0.113.2,"}, "10.0.0.1"},
		{"zone", "10.0.0.1", nil, []string{"fe80::1%eth0"}, "10.0.0.1"},
		{"a chain of 1001 hops", "10.0.0.1", nil, []string{long}, "10.0.0.1"},
	}
	r, err := NewClientAddress(proxies, HeaderAny)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Client(netip.MustParseAddr(tt.peer), tt.forwarded, tt.xff)
			if got != netip.MustParseAddr(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestNewNamesTheBadEntry(t *testing.T) {
	_, err := NewClientAddress([]string{"10.0.0.0/8", "10.0.0.0/99"}, HeaderAny)
	if err == nil || !strings.Contains(err.Error(), "10.0.0.0/99") {
		t.Fatalf("got %v, want an error that names 10.0.0.0/99", err)
	}
}

// FuzzClient checks that every header gives a valid address, and that an untrusted peer keeps its
// own.
func FuzzClient(f *testing.F) {
	f.Add(`for="[2001:db8::17]:4711", for=10.0.0.1`, "203.0.113.2, 10.1.1.1")
	f.Add(`for="\",`, ",,,")
	f.Add("", "::ffff:1.2.3.4%x")
	r, err := NewClientAddress([]string{"10.0.0.0/8"}, HeaderAny)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, forwarded, xff string) {
		got := r.Client(netip.MustParseAddr("10.0.0.1"), []string{forwarded}, []string{xff})
		if !got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Errorf("got %v", got)
		}
		out := netip.MustParseAddr("198.51.100.5")
		if got := r.Client(out, []string{forwarded}, []string{xff}); got != out {
			t.Errorf("untrusted peer became %v", got)
		}
	})
}

// A Forwarded header without any for parameter, as proxies write it for the scheme alone, names no
// client: X-Forwarded-For is read. One with a for parameter that cannot be parsed is still ignored as
// a whole, because falling back would let a client choose the header.
func TestForwardedWithoutForFallsBack(t *testing.T) {
	r, err := NewClientAddress([]string{"10.0.0.0/8"}, HeaderAny)
	if err != nil {
		t.Fatal(err)
	}
	peer, xff := netip.MustParseAddr("10.0.0.1"), []string{"198.51.100.7"}
	for forwarded, want := range map[string]string{
		"proto=https": "198.51.100.7", "proto=https;host=gw.example, by=10.0.0.1": "198.51.100.7",
		"proto=https;for=203.0.113.9": "203.0.113.9", "FOR=203.0.113.9": "203.0.113.9", "for=unknown": "10.0.0.1", "proto=https, for=;;": "10.0.0.1",
	} {
		if got := r.Client(peer, []string{forwarded}, xff); got.String() != want {
			t.Errorf("%s: %s, want %s", forwarded, got, want)
		}
	}
	if r.Conflict(peer, []string{"proto=https"}, xff) {
		t.Error("a Forwarded without a client conflicts")
	}
}

func TestASelectedHeaderIsTheOnlyOneThatIsRead(t *testing.T) {
	const peer, forged, real = "10.0.0.1", "for=203.0.113.1", "198.51.100.7"
	for _, tt := range []struct {
		name, header   string
		forwarded, xff []string
		want           string
	}{
		{"x-forwarded-for, both", HeaderXForwardedFor, []string{forged}, []string{real}, real},
		{"x-forwarded-for, only the other", HeaderXForwardedFor, []string{forged}, nil, peer},
		{"x-forwarded-for, the other unreadable", HeaderXForwardedFor, []string{"for=;;"}, []string{real}, real},
		{"forwarded, both", HeaderForwarded, []string{"for=" + real}, []string{"203.0.113.1"}, real},
		{"forwarded, only the other", HeaderForwarded, nil, []string{"203.0.113.1"}, peer},
		{"forwarded, empty", HeaderForwarded, []string{""}, []string{"203.0.113.1"}, peer},
		{"none selected", HeaderAny, []string{"for=" + real}, []string{"203.0.113.1"}, real},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := NewClientAddress([]string{"10.0.0.0/8"}, tt.header)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Client(netip.MustParseAddr(peer), tt.forwarded, tt.xff).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if _, err := NewClientAddress(nil, "x-real-ip"); err == nil || !strings.Contains(err.Error(), "x-real-ip") {
		t.Errorf("an unknown header: %v", err)
	}
}

func TestConflict(t *testing.T) {
	one, two := []string{"for=203.0.113.1"}, []string{"203.0.113.2"}
	for _, tt := range []struct {
		name, header, peer string
		forwarded, xff     []string
		want               bool
	}{
		{"different clients", HeaderAny, "10.0.0.1", one, two, true},
		{"the same client", HeaderAny, "10.0.0.1", one, []string{"1.2.3.4, 203.0.113.1"}, false},
		{"one is unreadable", HeaderAny, "10.0.0.1", []string{"for=unknown"}, two, true},
		{"one header", HeaderAny, "10.0.0.1", one, nil, false},
		{"a peer that is not trusted", HeaderAny, "192.0.2.1", one, two, false},
		{"one is selected", HeaderForwarded, "10.0.0.1", one, two, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := NewClientAddress([]string{"10.0.0.0/8"}, tt.header)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Conflict(netip.MustParseAddr(tt.peer), tt.forwarded, tt.xff); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::9": "2001:db8:1:2::/64",
		"::1": "::/64", "fe80::1%eth0": "fe80::/64", "::ffff:192.0.2.7": "::ffff:192.0.2.7/128",
	} {
		if got := Network(netip.MustParseAddr(address)).String(); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
