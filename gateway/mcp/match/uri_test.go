package match

import (
	"strings"
	"testing"
)

func TestURIPrefix(t *testing.T) {
	long := "file:///srv/docs/" + strings.Repeat("a", maxURI)
	for _, c := range []struct {
		prefix string
		want   URIMatch
		uris   []string
	}{
		{"file:///srv/docs/", Yes, []string{
			"file:///srv/docs", "file:///srv/docs/", "file:///srv/docs/a", "file:///srv/docs/a%20b", "FILE:///srv/docs/a", "file:/srv/docs/a",
			"file://localhost/srv/docs/a", "file://LOCALHOST/srv/docs/a", "file://localhost./srv/docs/a", "file:///srv//docs///a", "file:///srv/./docs/./a", "file:///srv/x/../docs/a",
			"file:///../srv/docs/a", "file:///srv/docs/a/..", "file:///srv/%64ocs/a", "file:///srv%2fdocs%2Fa", "file:///srv/x/%2e%2E/docs/a",
			"file:///srv/docs/a?q=1", "file:///srv/docs?q=1", "file:///srv/docs/a#f", "file:///srv/docs/100%", "file:///srv/docs/%C3%A9", "file:///srv/docs/..a", "file:///srv/docs/a;v=1",
		}},
		{"file:///srv/docs/", No, []string{
			"file:///srv/docs2/a", "file:///srv/doc", "file:///srv", "file:///", "file:///srv/docs/../a", "file:///srv/docs/%2e%2e/a", "file:///srv/docs%2f..%2fa", "file:///etc/srv/docs/a",
			"https://srv/docs/a", "notes:///srv/docs/a", "https://h/?u=file:///srv/docs/a", "data:text/plain,file", "urn:x:y",
		}},
		{"file:///srv/docs/", Unclear, []string{
			"", "/srv/docs/a", "srv/docs/a", `C:\srv\docs\a`, "c:/srv/docs/a", " file:///srv/docs/a", "fi\tle:///srv/docs/a", "%66ile:///srv/docs/a", "f\u0131le:///srv/docs/a",
			`file:///srv\docs\a`, "file:///srv%5cdocs/a", "file:///srv/docs/%00", "file:///srv/docs/\x00", "file:///srv/do\ncs/a", "file:///srv/%0adocs/a", "file:///srv/%c0%af", "file:///srv/docs/\xff",
			"file:srv/docs/a", "file:docs", "file:////srv/docs/a", "file:///%2fsrv/docs/a", "file://srv/docs/a", "file://127.0.0.1/srv/docs/a", "file://./srv/docs/a", "file://user@localhost/srv/docs/a", "file://localhost:80/srv/docs/a",
			"file:///srv/%2564ocs/a", "file:///srv/docs/%252e%252e/a", "file:///srv/docs/%25252525", "file:///srv//x/../docs/a", "file:///srv/docs//../a", "file:///srv/.../a", "file:///srv/..;/docs", "file:///srv/x/.. /docs",
			"file:///SRV/Docs/a", "file:///srv/docs./a", "file:///srv/docs%20/a", "file:///srv/docs;v=1/a", "file:///srv/\uff44ocs/a", "file:///srv/do\u200dcs/a", "file:///srv\uff0fdocs/a", "file:///srv/x/\uff0e\uff0e/docs/a", "file:///srv/docs%3fx",
			"file:///srv/pub?/../docs/a", "file:///srv/docs/a?/../../b", "file:///srv/docs/a#/../../b", "file:///srv/pub%3f/../docs/..;",
			"url:file:///srv/docs/a", "jar:url:file:///srv/docs/a", long, "file:///" + strings.Repeat("\ufdfa", 400),
		}},
		{"https://Example.com/docs", Yes, []string{
			"https://example.com/docs/a", "HTTPS://EXAMPLE.COM:443/docs", "https://example.com./docs", "https://example.com:0443/docs", "https://example.com:/docs", "https://ex%61mple.com/docs", "https://\uff45xample.com/docs", "https://example.com/../docs",
		}},
		{"https://example.com/docs", No, []string{"https://example.com/", "https://example.com:8443/docs", "https://a.example.com/docs", "http://example.com/docs", "https://example.com.evil.example/docs", "https://example.com/?q=docs"}},
		{"https://example.com/docs", Unclear, []string{"https:example.com/docs", "https:/example.com/docs", "https:///example.com/docs", "https://u@example.com/docs", `https://example.com\docs`, "https://example.com:x/docs", "https://exa mple.com/docs", "https://example.com/DOCS"}},
		{"https://b\u00fccher.example:8443/", Yes, []string{"https://xn--bcher-kva.example:8443/a", "https://B\u00dcCHER.example:8443"}},
		{"https://b\u00fccher.example:8443/", No, []string{"https://xn--bcher-kva.example/a", "https://bucher.example:8443"}},
		{"http://127.0.0.1/", Yes, []string{"http://0x7f.1/a", "http://127.0.0.1:80/", "http://[::ffff:127.0.0.1]/"}},
		{"http://[::1]:80/", Yes, []string{"http://[0:0::1]/a"}},
		{"http://[::1]:81/", No, []string{"http://[::1:81]/a"}},
		{"notes://private/", Yes, []string{"notes://private/a", "notes://PRIVATE", "notes://priv%61te/a", "notes://private./a"}},
		{"notes://private/", No, []string{"notes://public/private/a", "notes://private2/a", "other://private/a"}},
		{"notes://private/", Unclear, []string{"notes://public/../private/a", "notes:private/a", "notes:/private/a", "notes:///private/a", "notes:////private/a", "notes://priv%2fate/a", "notes://./private/a", "notes://private\uff0fa"}},
		{"mem:a/b", Yes, []string{"mem:a/b", "mem:a//b/c", "MEM:a/./b"}},
		{"mem:a/b", No, []string{"mem:a/c", "mem:a"}},
		{"mem:a/b", Unclear, []string{"mem:/a/b", "mem://a/b", "mem:../a/b", "mem:%2fa/b"}},
		{"notes:", Yes, []string{"notes:a", "notes://x/y", "Notes:" + strings.Repeat("a", maxURI), `notes:\`}},
		{"notes://", No, []string{"note:a", "notess:a"}},
		{"file:///", Yes, []string{"file:///", "file:/", "file:///etc", "file:///a?b"}},
		{"file:///srv/a%20b", Yes, []string{"file:///srv/a b/c", "file:///srv/a%20b"}},
	} {
		p, err := CompileURI(c.prefix)
		if err != nil {
			t.Errorf("%q: %v", c.prefix, err)
			continue
		}
		for _, uri := range c.uris {
			if got := p.Match(uri); got != c.want {
				t.Errorf("%q, %.60q: %d, not %d", c.prefix, uri, got, c.want)
			}
		}
	}
	for _, bad := range []string{"", "/srv", "c:/srv", "srv", "file:srv", "https:", "https:///x", "https:/x", "file:////x", "file:///a?b", "file:///a#b", "https://u@h/", "https://h:99999/", `file:///a\b`, "file:///%2541", "file:///..;/", "file:///a\xff", "notes:../a", long} {
		if p, err := CompileURI(bad); err == nil && bad != "https:" {
			t.Errorf("%.60q compiles: %+v", bad, p)
		}
	}
	if got := new(URIPrefix).Match("file:///"); got != No {
		t.Errorf("no prefix: %d", got)
	}
}

// FuzzURIPrefix checks that a prefix matches itself and what stands below it, and that other spellings of
// a URI that matches never say No.
func FuzzURIPrefix(f *testing.F) {
	for _, c := range [][2]string{{"file:///srv/docs/", "file:///srv/docs/a"}, {"https://h:81/a", "https://h:81/a/%2e%2e/b?c"}, {"mem:a/b", "mem:a/b/c"}, {"notes:", "notes:x"}, {"n://\uff41./b;c", "n://a/b;c/d"}} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, prefix, uri string) {
		p, err := CompileURI(prefix)
		if err != nil {
			return
		}
		if own, child := p.Match(prefix), p.Match(prefix+"/x"); own != Yes || child == No {
			t.Fatalf("%q matches itself: %d, what stands below it: %d", prefix, own, child)
		}
		if p.Match(uri) != Yes {
			return
		}
		scheme, rest, _ := strings.Cut(uri, ":")
		for _, other := range []string{strings.ToUpper(scheme) + ":" + rest, strings.ReplaceAll(uri, "/", "/./"), uri + "?a/../b"} {
			if p.Match(other) == No {
				t.Fatalf("%q matches %q and not %q", prefix, uri, other)
			}
		}
	})
}

func TestLaxScheme(t *testing.T) {
	for uri, want := range map[string]string{
		" ui://x": "ui", "u\ti:x": "ui", "u%69:x": "ui", "%2575i%3A//x": "ui", "\ufeffUI://x": "ui", "ｕｉ：//x": "ui", "u\u200bi:x": "ui",
		"a b:c": "ab", "ui": "", "x/ui://x": "", "1:x": "", "": "", strings.Repeat("x", 2<<10) + ":": "",
	} {
		if got := LaxScheme(uri); got != want {
			t.Errorf("%.40q: %q, want %q", uri, got, want)
		}
	}
}
