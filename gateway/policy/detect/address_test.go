package detect

import "testing"

// TestAddressesThatAreNobodysAreNoPersonalData: loopback, unspecified, netmask, multicast and
// documentation addresses, versions and object identifiers are left alone, alone, in a sentence
// and as the value of a member; addresses of hosts are found in the same places.
func TestAddressesThatAreNobodysAreNoPersonalData(t *testing.T) {
	s := NewScanner(IPAddress)
	found := func(name, text string) int { return len(s.ScanValue(nil, name, []byte(text))) }
	for _, address := range []string{
		"127.0.0.1", "127.0.0.53", "127.255.255.254", "::1", "::ffff:127.0.0.1", "0.0.0.0", "0.0.0.0:8080", "[::]:80",
		"255.255.255.0", "255.255.240.0", "255.255.255.255", "0.0.0.255", "224.0.0.251", "239.255.255.250", "ff02::fb",
		"192.0.2.7", "198.51.100.44", "203.0.113.200", "2001:db8::8a2e:370:7334", "3fff:0:1::2",
		"2.5.4.3", "2.5.29.17", "1.3.6.1",
	} {
		for _, text := range []string{address, "listening on " + address + ", ready", `{"bind":"` + address + `"}`, "ip=" + address + " user=ada"} {
			if found("", text) != 0 || found("address", text) != 0 {
				t.Errorf("%q: found", text)
			}
		}
	}
	for _, text := range []string{"package 10.4.2.1 is old", "installed 10.4.2.1", "jdk 11.0.22.7", "nuget Foo 4.5.0.1"} {
		if found("", text) != 0 {
			t.Errorf("%q: found", text)
		}
	}
	if found("tag_name", "10.4.2.1") != 0 || found("version", "10.4.2.1") != 0 {
		t.Error("a member with a version has an address")
	}
	for _, address := range []string{"84.17.203.9", "10.4.2.1", "192.168.178.23", "1.3.7.1", "2.5.30.3", "128.0.0.1", "2a02:8071::7", "fe80::1", "::ffff:84.17.203.9"} {
		if found("", "seen at "+address+", again") != 1 {
			t.Errorf("%s: not found", address)
		}
	}
}
