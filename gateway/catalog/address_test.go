package catalog

import (
	"errors"
	"strings"
	"testing"
)

func TestAddressSegment(t *testing.T) {
	for name, want := range map[string]string{
		"My_Docs": "my-docs", "docs": "docs", "docs.v2": "docs.v2", "a b/c": "a-b-c", "Bücher": "b-cher",
		".": "-", "..": "--", ".a.": "-a-", "a..b": "a--b", "x@y:80": "x-y-80", "[::1]": "---1-", "127.0.0.1": "127.0.0.1", "\xff": "-",
	} {
		if got := AddressSegment(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// An address of an upstream becomes that of clients and, where clients may use it, back again.
func TestAddresses(t *testing.T) {
	a := NewAddresses([]string{"My_Docs", "b", "c_d", "c-d"})
	for _, test := range []struct{ own, visible, problem string }{
		{"skill://git-workflow/SKILL.md", "skill://my-docs/git-workflow/SKILL.md", ""},
		{"ui://x/page", "ui://my-docs/x/page", ""},
		{"SKILL://A/b", "SKILL://my-docs/A/b", ""},
		{"Ui://x", "Ui://my-docs/x", ""},
		{"ui://my-docs/x", "ui://my-docs/my-docs/x", ""},
		{"ui://b/x", "ui://my-docs/b/x", ""}, // the address of another upstream is one of its own
		{"ui:///x", "ui://my-docs//x", ""},
		{"ui://", "ui://my-docs/", ""},
		{"ui://x/a%20b/ü", "ui://my-docs/x/a%20b/ü", ""},
		{"ui://x/a@b:c", "ui://my-docs/x/a@b:c", ""},
		{"ui://x/100%", "ui://my-docs/x/100%", ""},
		{"ui://x/100%25", "ui://my-docs/x/100%25", ""},
		{"ui://x/...", "ui://my-docs/x/...", ""},
		{"ui://x/..a", "ui://my-docs/x/..a", ""},
		{"ui://../b/x", "ui://my-docs/../b/x", "dot segment"},
		{"ui://x/./y", "ui://my-docs/x/./y", "dot segment"},
		{"ui://x/..", "ui://my-docs/x/..", "dot segment"},
		{"ui://x/..;v/y", "ui://my-docs/x/..;v/y", "dot segment"},
		{"ui://x/%2e%2E/y", "ui://my-docs/x/%2e%2E/y", `escape of "."`},
		{"ui://x/a%2eb", "ui://my-docs/x/a%2eb", `escape of "."`},
		{"ui://x/a%252Eb", "ui://my-docs/x/a%252Eb", `escape of "."`},
		{"ui://x/a%25%32%65b", "ui://my-docs/x/a%25%32%65b", `escape of "."`},
		{"ui://x%2fy", "ui://my-docs/x%2fy", `escape of "/"`},
		{"ui://x/%252525252Fy", "ui://my-docs/x/%252525252Fy", "escapes of escapes"},
		{"ui://x%5Cy", "ui://my-docs/x%5Cy", `escape of`},
		{`ui://x\y`, `ui://my-docs/x\y`, "backslash"},
		{"ui://x/\n", "ui://my-docs/x/\n", "control"},
		{"ui://x/%00", "ui://my-docs/x/%00", "control"},
		{"ui://x/\u0085", "ui://my-docs/x/\u0085", "control"},
		{"ui://x/%c0%ae", "ui://my-docs/x/%c0%ae", "UTF-8"},
		{"ui://x/y ", "ui://my-docs/x/y ", "space"},
		{"ui://me@x/y", "ui://my-docs/me@x/y", "user information"},
		{"ui://me%40x/y", "ui://my-docs/me%40x/y", "user information"},
		{"ui://x:80/y", "ui://my-docs/x:80/y", "port"},
		{"ui://[::1]/y", "ui://my-docs/[::1]/y", "port"},
		{"ui://x/y?z", "ui://my-docs/x/y?z", "query"},
		{"ui://x/y#z", "ui://my-docs/x/y#z", "fragment"},
		{"ui://" + strings.Repeat("x", MaxKey), "ui://my-docs/" + strings.Repeat("x", MaxKey), ""},
		{"ui://" + strings.Repeat("x", MaxKey+1), "ui://my-docs/" + strings.Repeat("x", MaxKey+1), "longer"},
		// What only a lenient parser takes for an address.
		{" ui://b/x", "ui://my-docs/ ui://b/x", "port"},
		{"\tui://b/x", "ui://my-docs/\tui://b/x", "control"},
		{"u\ni://b/x", "ui://my-docs/u\ni://b/x", "control"},
		{"\ufeffskill://b/x", "skill://my-docs/\ufeffskill://b/x", "port"},
		{"u%69://b/x", "ui://my-docs/u%69://b/x", "port"},
		{"%2575i://b/x", "ui://my-docs/%2575i://b/x", "port"},
		{"ui%3a//b/x", "ui://my-docs/ui%3a//b/x", "port"},
		{"ui:/b/x", "ui://my-docs/ui:/b/x", "port"},
		{"ui:b", "ui://my-docs/ui:b", "port"},
		{`ui:\\b\x`, `ui://my-docs/ui:\\b\x`, "backslash"},
		// Other schemes.
		{"file:///x", "file:///x", "-"},
		{"uix://x", "uix://x", "-"},
		{"https://b/ui://b/x", "https://b/ui://b/x", "-"},
		{"ui", "ui", "-"},
		{"", "", "-"},
	} {
		visible := a.Visible("My_Docs", test.own)
		if visible != test.visible {
			t.Errorf("%q is seen as %q, want %q", test.own, visible, test.visible)
			continue
		}
		upstream, own, ok, err := a.Own(visible)
		switch {
		case test.problem == "-":
			if ok || err != nil {
				t.Errorf("%q: ok %t, error %v for another scheme", visible, ok, err)
			}
		case test.problem == "":
			if !ok || err != nil || upstream != "My_Docs" || own != test.own {
				t.Errorf("%q: %q at %q (%t), error %v, want %q", visible, own, upstream, ok, err, test.own)
			}
		case !ok || !errors.As(err, new(*AddressError)) || !strings.Contains(err.Error(), test.problem):
			t.Errorf("%q: ok %t, error %v, want one with %q", visible, ok, err, test.problem)
		}
	}
	for _, uri := range []string{
		"ui://", "ui:///x", "ui://my-docs", "ui://My-Docs/x", "ui://my_docs/x", "ui://My_Docs/x", "ui://m%79-docs/x", "ui://unknown/x", "ui://[::1]/x",
		"ui://me@my-docs/x", "ui://my-docs:80/x", "ui://my-docs?/x", "ui://my-docs#/x", `ui://my-docs\x`, "ui:/my-docs/x", "ui:my-docs/x",
		" ui://my-docs/x", "u%69://my-docs/x", "ui%3A//my-docs/x", "ui:////my-docs/x", "ui://my-docs\x00/x", "ui://c-d/x",
	} {
		if upstream, own, ok, err := a.Own(uri); !ok || err == nil {
			t.Errorf("%q is %q at %q", uri, own, upstream)
		}
	}
	if other := a.Ambiguous("c_d"); other != "c-d" {
		t.Errorf("c_d has the segment of %q", other)
	}
	if other := a.Ambiguous("b"); other != "" {
		t.Errorf("b has the segment of %q", other)
	}
}

func TestAddressTemplates(t *testing.T) {
	a := NewAddresses([]string{"a", "b"})
	for template, want := range map[string]string{
		"ui://a/x/{name}": "ui://x/{name}", "ui://a/{host}/x{?q,r}{#f}": "ui://{host}/x{?q,r}{#f}", "ui://a/{+path}": "ui://{+path}",
		"ui://a/{x}/../y": "", "ui://a/x?q={q}": "", "ui://a/x{?q": "", "ui://{up}/x": "",
	} {
		_, own, ok, err := a.OwnTemplate(template)
		if own != want || !ok || (err == nil) != (want != "") {
			t.Errorf("%q: %q, ok %t, error %v, want %q", template, own, ok, err, want)
		}
	}
}

// The addresses of a single upstream stay as they are.
func TestAddressesOfOneUpstream(t *testing.T) {
	a := NewAddresses([]string{"a"})
	if _, _, ok, err := a.Own("ui://a/x"); ok || err != nil {
		t.Errorf("ok %t, error %v", ok, err)
	}
	if got := a.Visible("a", "ui://x"); got != "ui://x" || a.Ambiguous("a") != "" {
		t.Errorf("ui://x is seen as %q", got)
	}
}

// No spelling that an upstream chooses becomes an address of another upstream, and every address that
// clients can use comes from exactly one.
func FuzzAddresses(f *testing.F) {
	for _, seed := range []string{"ui://b/x", "skill://x/SKILL.md", " ui://b/x", "u%69://b/x", "UI:/b/x", "ui:\\\\b", "ui://../b/x", "file:///x", "\ufeffui://b", "ui:%2f%2fb/x"} {
		f.Add(seed)
	}
	a := NewAddresses([]string{"a", "b"})
	f.Fuzz(func(t *testing.T, uri string) {
		upstream, own, ok, err := a.Own(a.Visible("a", uri))
		if !ok && a.Visible("a", uri) != uri {
			t.Fatalf("%q is seen as %q, which is none of the schemes", uri, a.Visible("a", uri))
		}
		if ok && err == nil && (upstream != "a" || own != uri) {
			t.Fatalf("%q of a is %q of %q", uri, own, upstream)
		}
		if upstream, own, ok, err = a.Own(uri); ok && err == nil && a.Visible(upstream, own) != uri {
			t.Fatalf("%q is %q of %q, which is seen as %q", uri, own, upstream, a.Visible(upstream, own))
		}
	})
}
