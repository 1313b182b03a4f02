package match

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "A", false}, {"a", "ab", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"*", "anything/at.all", true}, {"**", "x", true}, {"a*", "a", true}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false}, {"*ab*ab", "abab", true}, {"*ab*ab", "ab", false}, {"a*a", "a", false},
		{"?", "é", true}, {"?", "", false}, {"??", "é", false}, {"db_?", "db_x", true},
		{"[abc]", "b", true}, {"[abc]", "d", false}, {"[a-c]x", "bx", true}, {"[!a-c]", "d", true}, {"[!a-c]", "b", false}, {"[^a]", "a", false},
		{"[à-ü]", "é", true}, {"[a-]", "-", true}, {"[-a]", "-", true}, {`[\]]`, "]", true}, {`[a\-c]`, "b", false}, {"[a-c-e]", "d", false},
		{`\*`, "*", true}, {`\*`, "x", false}, {`\[a`, "[a", true}, {"{a,b}", "{a,b}", true}, {"a]", "a]", true},
		{"*", "", true},
		{"*", "anything/at.all", true},
		{"a*", "a", true},
		{"a*", "abc", true},
		{"a*", "ba", false},
		{"*a", "bba", true},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"?", "é", true},
		{"?", "", false},
		{"[abc]x", "bx", true},
		{"[abc]x", "dx", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[^a-c]x", "dx", true},
		{"[a-]", "-", true},
		{"[-a]", "-", true},
		{`[\]]`, "]", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{"A*", "abc", false},
		{"*é*", "caféx", true},
		{"*ab", "aab", true},
		{"*.*", "a/b.c", true},
		{"tools/*", "tools/x/y", true}, {"*é*", "xéy", true},
	} {
		g, err := CompileGlob(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if got := g.Match(c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
	for _, bad := range []string{"[", "[a", "[]", "[!]", "[z-a]", "[a-", `a\`, `[\`, "[[:alpha:]]", "[[.a.]]", "a\xff", strings.Repeat("a", 1025)} {
		if _, err := CompileGlob(bad); err == nil {
			t.Errorf("%.20q compiles", bad)
		}
	}
}

// The cost of a pattern with many stars is at most the length of the name for each star.
func TestGlobIsNotExponential(t *testing.T) {
	g, err := CompileGlob(strings.Repeat("*a", 400) + "b")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("a", 1024)
	best := time.Hour
	for range 5 {
		start := time.Now()
		if g.Match(name) {
			t.Fatal("matches")
		}
		best = min(best, time.Since(start))
	}
	if best > 50*time.Millisecond {
		t.Errorf("a match takes %v", best)
	}
}

// FuzzPattern checks that a pattern that compiles matches as path.Match does, where both have the
// same meaning: no separators in the name, no exclamation mark.
func FuzzPattern(f *testing.F) {
	for _, c := range [][2]string{{"a*b?c", "axxbyc"}, {"[a-c]*", "bx"}, {"[^a]", "é"}, {`\*[\]]`, "*]"}, {"[", ""}, {"*a*b*", "xaxbx"}, {"[!a]", "!"}} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := CompileGlob(pattern)
		if err != nil || len(name) > 1024 {
			return
		}
		got := p.Match(name)
		prefix, whole, exact := p.Prefix()
		if got && (!strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, p.Suffix())) ||
			exact && got != (name == prefix) || whole && got != strings.HasPrefix(name, prefix) {
			t.Fatalf("%q begins with %q and ends with %q, and matches %q: %v", pattern, prefix, p.Suffix(), name, got)
		}
		if strings.ContainsAny(name, "/") || strings.Contains(pattern, "[!") || !utf8.ValidString(name) {
			return
		}
		if want, err := path.Match(pattern, name); err == nil && got != want {
			t.Fatalf("%q matches %q: %v, path.Match says %v", pattern, name, got, want)
		}
	})
}

// The expression of a pattern matches the same names as the pattern.
func TestRegexAgreesWithMatch(t *testing.T) {
	for _, pattern := range []string{"", "*", "?", "a*b", "a.b", "[a-c]x", "[!a-c]*", `\*`, "*[-.]?", "é*", "[^é]", "a**b", `[\]]`} {
		p, err := CompileGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(`\A(?:` + p.Regex() + `)\z`)
		for _, name := range []string{"", "a", "b", "ab", "axb", "a.b", "bx", "dx", "*", "é", "éa", "x-y", "x.y", "]", "a\nb"} {
			if got, want := re.MatchString(name), p.Match(name); got != want {
				t.Errorf("%q: the expression %s says %v of %q, the pattern %v", pattern, re, got, name, want)
			}
		}
	}
}
