package match

import (
	"slices"
	"strings"
	"testing"
)

func TestEachMatcherMatchesWholeNames(t *testing.T) {
	for _, tt := range []struct {
		name    string
		w       Written
		kind    Kind
		matches string // separated by spaces, of those below
		text    string
	}{
		{"none", Written{}, Every, "a ab abc b *", " "},
		{"any", Written{Name: new("*")}, Every, "a ab abc b *", `tool_name "*"`},
		{"a name", Written{Name: new("ab")}, ByName, "ab", `tool_name "ab"`},
		{"names", Written{NameIn: []string{"a", "*"}}, ByName, "a *", `tool_name_in ["a", "*"]`},
		{"a prefix", Written{Prefix: new("ab")}, ByPrefix, "ab abc", `tool_prefix "ab"`},
		{"a glob", Written{Glob: new("?b*")}, ByGlob, "ab abc", `tool_glob "?b*"`},
		{"a glob that is a name", Written{Glob: new(`\*`)}, ByName, "*", `tool_glob "\\*"`},
		{"a glob that is a prefix", Written{Glob: new("ab*")}, ByPrefix, "ab abc", `tool_glob "ab*"`},
		{"an expression", Written{Regex: new("a|b")}, ByRegex, "a b", `tool_regex "a|b"`},
		{"an expression with its own lines", Written{Regex: new("(?m)a$")}, ByRegex, "a", `tool_regex "(?m)a$"`},
	} {
		m, err := Compile(&tt.w)
		if err != nil || m.Kind != tt.kind {
			t.Errorf("%s: kind %d, %v", tt.name, m.Kind, err)
			continue
		}
		for _, name := range []string{"a", "ab", "abc", "b", "*", "a\nb"} {
			if want := slices.Contains(strings.Split(tt.matches, " "), name) || tt.kind == Every; m.Match(name) != want {
				t.Errorf("%s: %q: %v", tt.name, name, !want)
			}
		}
		if key, text := tt.w.Text(); key+" "+text != tt.text {
			t.Errorf("%s: %s %s", tt.name, key, text)
		}
		if keys := tt.w.Keys(); len(keys) == 1 != (tt.text != " ") {
			t.Errorf("%s: %v", tt.name, keys)
		}
	}
}

func TestMatchersThatAreWrong(t *testing.T) {
	for name, w := range map[string]Written{
		"two":                       {Name: new("a"), Prefix: new("b")},
		"an empty name":             {Name: new("")},
		"an empty prefix":           {Prefix: new("")},
		"an empty glob":             {Glob: new("")},
		"no names":                  {NameIn: []string{}},
		"an empty name in a list":   {NameIn: []string{"a", ""}},
		"a class without an end":    {Glob: new("[a")},
		"a parenthesis of its own":  {Regex: new("a)(b")},
		"an expression without end": {Regex: new("(a")},
	} {
		if m, err := Compile(&w); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// What a glob is simplified to matches the same names.
func FuzzGlobsAreSimplifiedToTheSame(f *testing.F) {
	for _, c := range [][2]string{{"a*b?c", "axxbyc"}, {"[a-c]*", "bx"}, {"ab*", "abc"}, {`\*[\]]`, "*]"}, {"abc", "abc"}} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		g, err := CompileGlob(pattern)
		if err != nil || len(name) > 1024 {
			return
		}
		m, got := ofGlob(g), g.Match(name)
		if m.Match(name) != got || got && !m.MatchPattern(name) {
			t.Fatalf("%q is compiled to %+v, and matches %q: %v", pattern, m, name, got)
		}
		if got && m.Kind != ByName && (!strings.HasPrefix(name, m.Prefix) || !strings.HasSuffix(name, m.Suffix)) {
			t.Fatalf("%q matches %q, which has not the affixes of %+v", pattern, name, m)
		}
	})
}
