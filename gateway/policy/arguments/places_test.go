package arguments

import (
	"strings"
	"testing"
)

// The path of a value, or "-" for one that programs parse in different ways.
func TestPaths(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{"/srv/data", "/srv/data"},
		{"/srv/data/", "/srv/data"},
		{"/srv//data/./x", "/srv/data/x"},
		{"/srv/data/../../etc/passwd", "/etc/passwd"},
		{"/srv/data/%2e%2e/x", "/srv/x"},
		{"/srv/data/%252e%252e/x", "/srv/x"},
		{"/srv/data/%25252e%25252e/x", "/srv/x"},
		{"/srv/data/%2525252e%2525252e/x", "-"},
		{"/srv/data%2f..%2f..%2fetc", "/etc"},
		{"/srv/%64ata", "/srv/data"},
		{"/srv/data/100%", "-"},
		{"/srv/data/100%2", "-"},
		{"/srv/data/100%zz", "-"},
		{"/srv/data/100%25", "/srv/data/100%"},
		{"/srv/data/é", "/srv/data/é"},
		{"/srv/data/%c3%a9", "/srv/data/é"},
		{"/srv/data/%ff", "-"},
		{"/srv/data/%00", "-"},
		{"/srv/data/\x00", "-"},
		{`/srv/data\..\x`, "-"},
		{"/srv/data/%5c..", "-"},
		{"~/x", "-"},
		{"/~/x", "/~/x"},
		{"srv/data", "-"},
		{"./x", "-"},
		{"", "-"},
		{" /srv/data", "-"},
		{"C:/srv", "-"},
		{"/C:/srv", "-"},
		{"/c|/srv", "-"},
		{"//c:/srv", "-"},
		{"/./c:/srv", "-"},
		{"/srv/../c:/x", "-"},
		{"/%63:/x", "-"},
		{"/srv/c:/x", "/srv/c:/x"},
		{"file:///srv/data", "/srv/data"},
		{"FILE:///srv/data/%2e%2e/x", "/srv/x"},
		{"file:////srv/data", "/srv/data"},
		{"file://host/srv/data", "-"},
		{"file://localhost/srv/data", "-"},
		{"file:/srv/data", "-"},
		{"file:srv", "-"},
		{"file:///srv/data?/../../etc", "-"},
		{"file:///srv/data#x", "-"},
		{"file:///srv/data/.\t./x", "-"},
		{"file:///C:/x", "-"},
		{"http:///srv/data", "-"},
		{"/", "/"},
		{"/..", "/"},
		{"/../../etc", "/etc"},
	} {
		got, ok := cleanPath(tt.value)
		if !ok {
			got = "-"
		}
		if got != tt.want {
			t.Errorf("%q is %q, want %q", tt.value, got, tt.want)
		}
	}
	for _, tt := range []struct {
		root, path string
		want       bool
	}{
		{"/srv/data", "/srv/data", true},
		{"/srv/data", "/srv/data/x", true},
		{"/srv/data", "/srv/data2", false},
		{"/srv/data", "/srv", false},
		{"/", "/etc", true},
	} {
		if got := within(tt.root, tt.path); got != tt.want {
			t.Errorf("%s in %s: %v", tt.path, tt.root, got)
		}
	}
}

// The host of a value, or "-" for one that programs parse in different ways.
func TestHosts(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{"https://api.example.com/x", "api.example.com"},
		{"HTTPS://API.Example.COM:8443/x?y#z", "api.example.com"},
		{"api.example.com", "api.example.com"},
		{"api.example.com:443", "api.example.com"},
		{"api.example.com.", "api.example.com"},
		{"localhost:3000", "localhost"},
		{"api.example.com/x", "-"},
		{"api.example.com?x", "-"},
		{"//api.example.com/x", "-"},
		{"https:api.example.com", "api.example.com"},
		{"https:/api.example.com", "api.example.com"},
		{`https:\\api.example.com\x`, "-"},
		{`https:/\api.example.com/`, "-"},
		{`http://api.example.com\.evil.example`, "-"},
		{`http://api.example.com\.evil.example/x`, "-"},
		{`http://api.example.com:80\.evil.example/`, "-"},
		{"http://api.example.com%5c.evil.example/", "-"},
		{`https://api.example.com/a\b`, "api.example.com"},
		{"https://" + strings.Repeat("a.", 121) + "example.com/", strings.Repeat("a.", 121) + "example.com"},
		{"https://" + strings.Repeat("a.", 122) + "example.com/", "-"},
		{"https://" + strings.Repeat("%61", 400) + "/", "-"},
		{`https://api.example.com\@evil.example`, "-"},
		{"https:///api.example.com", "api.example.com"},
		{"https://api.example.com@evil.example/", "-"},
		{"https://u:p@api.example.com/", "-"},
		{"https://@api.example.com/", "-"},
		{"https://evil.example/@api.example.com", "evil.example"},
		{"https://evil.example?@api.example.com", "evil.example"},
		{"https://evil.example#@api.example.com", "evil.example"},
		{"https://evil.example%2f.api.example.com", "-"},
		{"https://evil.example%23.api.example.com", "-"},
		{"https://evil.example%40api.example.com", "-"},
		{"https://evil.example%5c.api.example.com", "-"},
		{"https://evil.example%3a80.api.example.com", "-"},
		{"https://api%2eexample%2ecom", "api.example.com"},
		{"https://api%252eexample.com", "-"},
		{"https://%61pi.example.com", "api.example.com"},
		{"https://%ff.example.com", "-"},
		{"https://a b.example.com", "-"},
		{"https://a%20b.example.com", "-"},
		{"ht\ntps://api.exa\tmple.com/", "api.example.com"},
		{"  https://api.example.com/ ", "api.example.com"},
		{"https://ａｐｉ.example.com", "api.example.com"},
		{"https://api。example。com", "api.example.com"},
		{"https://bücher.example", "xn--bcher-kva.example"},
		{"https://xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"https://faß.example", "xn--fa-hia.example"},
		{"https://a\u00adpi.example.com", "api.example.com"},
		{"https://api.example.com:99999/", "-"},
		{"https://api.example.com:80x/", "-"},
		{"https://api.example.com:/", "api.example.com"},
		{"https://", "-"},
		{"https://:80/", "-"},
		{"https://./", "-"},
		{"https://a..example.com/", "-"},
		{"http://127.0.0.1/", "127.0.0.1"},
		{"http://2130706433/", "127.0.0.1"},
		{"http://0x7f000001/", "127.0.0.1"},
		{"http://0x7f.1/", "127.0.0.1"},
		{"http://0177.0.0.1/", "127.0.0.1"},
		{"http://127.1/", "127.0.0.1"},
		{"http://127.0.0.1./", "127.0.0.1"},
		{"http://[::ffff:127.0.0.1]/", "127.0.0.1"},
		{"http://[::ffff:7f00:1]:80/", "127.0.0.1"},
		{"http://[::1]/", "::1"},
		{"http://[0:0:0:0:0:0:0:1]", "::1"},
		{"[::1]:80", "::1"},
		{"http://[::1%25eth0]/", "-"},
		{"http://[127.0.0.1]/", "-"},
		{"http://::1/", "-"},
		{"http://256.0.0.1/", "-"},
		{"http://1.2.3.4.5/", "-"},
		{"http://4294967296/", "-"},
		{"http://0x/", "0.0.0.0"},
		{"http://08/", "-"},
		{"http://１２７.0.0.1/", "127.0.0.1"},
		{"http://①27.0.0.1/", "127.0.0.1"},
		{"http://a.0x", "-"},
		{"postgres://db.example.com:5432/x", "db.example.com"},
		{"git+ssh://host.example/x", "host.example"},
		{`foo://a\b/`, "-"},
		{"file://host.example/x", "-"},
		{"file:///x", "-"},
		{"mailto:a@b.example", "-"},
		{"javascript:alert(1)", "-"},
		{"data:text/plain,x", "-"},
		{"", "-"},
		{"a<b.example", "-"},
		{"https://exam|ple.com", "-"},
		{"https://xn--a.example", "-"},
	} {
		got, ok := hostOf(tt.value)
		if !ok {
			got = "-"
		}
		if got != tt.want {
			t.Errorf("%q is %q, want %q", tt.value, got, tt.want)
		}
	}
	h := newHosts([]string{"api.example.com", "*.example.org", "10.0.0.1", "[::1]"})
	for host, want := range map[string]bool{
		"api.example.com": true, "x.api.example.com": false, "example.org": false, "a.example.org": true, "a.b.example.org": true,
		"aexample.org": false, "10.0.0.1": true, "::1": true,
	} {
		if got := h.has(host); got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}
