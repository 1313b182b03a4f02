package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// parse reads a set in the notation of these tests: =a,b names, ^a prefix, *a
// glob, /a expression, all.
func parse(t testing.TB, s string) *nameSet {
	t.Helper()
	var set *nameSet
	var err error
	switch {
	case s == "all":
		return everyName()
	case s[0] == '=':
		return nameList(strings.Split(s[1:], ",")...)
	case s[0] == '^':
		return namesWithPrefix(s[1:])
	case s[0] == '%':
		set, err = namesOfGlob(s[1:])
	case s[0] == '/':
		set, err = namesOfRegex(s[1:])
	default:
		t.Fatalf("no set: %s", s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		covers, target string
		want           coverage
		name           string
	}{
		{"all", "all", coversAll, ""},
		{"/.*", "all", coversAll, ""},
		{"/.+", "all", coversAll, ""},
		{"/(?s).+", "all", coversAll, ""},
		{"/[^a]*", "all", coversNotAll, "a"},
		{"%*", "/x.*", coversAll, ""},
		{"%?*", "all", coversAll, ""},
		{"%??*", "all", coversNotAll, "a"},
		{"^db_", "=db_a,db_b", coversAll, ""},
		{"^db_", "=db_a,x", coversNotAll, "x"},
		{"=a,b", "=b", coversAll, ""},
		{"=a =b", "=a,b", coversAll, ""},
		{"=a", "^a", coversNotAll, "aa"},
		{"^d", "^db_", coversAll, ""},
		{"^db_", "^d", coversNotAll, "d"},
		{"^db_", "%db_*_x", coversAll, ""},
		{"%*_x", "%db_*_x", coversAll, ""},
		{"%*_x", "%db_*", coversNotAll, "db_"},
		{"%[ab]*", "^a", coversAll, ""},
		{"^a ^b", "%[ab]*", coversAll, ""},
		{"^a ^b", "%[abc]*", coversNotAll, "c"},
		{"=read,write", "/read|write", coversAll, ""},
		{"=read,write", "/(read|write)_?", coversNotAll, "read_"},
		{"/(?i)delete_.*", "^DELETE_", coversAll, ""},
		{"^DELETE_", "/(?i)delete_.*", coversNotAll, "delete_"},
		{"/(?i)k", "=K", coversAll, ""}, // the Kelvin sign folds to k
		{`/\w+`, `/[a-z]+`, coversAll, ""},
		{`/[a-z]+`, `/\w+`, coversNotAll, "0"},
		{`/.*\bdrop\b.*`, "=drop,x drop y", coversAll, ""},
		{`/.*\bdrop\b.*`, `/drop( .*)?`, coversAll, ""},
		{`/.*\bdrop\b.*`, `/drop.*`, coversNotAll, "drop0"},
		{`/a\Bb`, "=ab", coversAll, ""},
		{`/^a$`, "=a", coversAll, ""},
		{`/a{2,5}`, `/aaa?`, coversAll, ""},
		{`/a{2,5}`, `/a{2,6}`, coversNotAll, "aaaaaa"},
		{`/\p{L}+`, `/[a-zé]+`, coversAll, ""},
		{"=x", `/a\bb`, coversAll, ""}, // the empty set
		{"=x", `/[[:cntrl:]]`, coversAll, ""},
		{"", `/$a`, coversAll, ""},
		{"", "=a", coversNotAll, "a"},
	} {
		t.Run(c.target+" in "+c.covers, func(t *testing.T) {
			var covers []*nameSet
			for _, s := range strings.Fields(c.covers) {
				covers = append(covers, parse(t, s))
			}
			target := parse(t, c.target)
			got, name := newWorkBound(1_000_000).Covers(covers, target)
			if got != c.want || c.want == coversNotAll && (!target.Contains(name) || len(name) != len(c.name)) {
				t.Errorf("got %v %q, want %v %q", got, name, c.want, c.name)
			}
		})
	}
}

// A query that is too large returns coversUnknown soon.
func TestCoversBounded(t *testing.T) {
	wide := parse(t, "/.*a.{18}")
	began := time.Now()
	if v, _ := newWorkBound(1_000_000_000).Covers([]*nameSet{wide}, everyName()); v != coversNotAll {
		t.Errorf("got %v", v) // the shortest name is found at once
	}
	v, _ := newWorkBound(1_000_000_000).Covers([]*nameSet{wide, parse(t, "/.*[^a].{18}"), parse(t, "/.{1,18}")}, everyName())
	if v == coversNotAll {
		t.Errorf("got %v", v)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	if v, _ := newWorkBound(3).Covers([]*nameSet{parse(t, "/a+b+")}, parse(t, "/aa*bb*")); v != coversUnknown {
		t.Errorf("without budget: %v", v)
	}
	b := newWorkBound(100)
	for range 20 {
		b.Covers([]*nameSet{parse(t, "/a+b+")}, parse(t, "/aa*bb*"))
	}
	if v, _ := b.Covers([]*nameSet{parse(t, "/a+b+")}, parse(t, "/aa*bb*")); v != coversUnknown {
		t.Error("a budget that is used up still answers")
	}
}

// Long lists are left out, but a result is never wrong because of it.
func TestCoversLongList(t *testing.T) {
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("tool_%d", i))
	}
	long := nameList(append(names, "a")...)
	if v, name := newWorkBound(1_000_000).Covers([]*nameSet{long}, parse(t, "/a|b+")); v == coversAll || v == coversNotAll && long.Contains(name) {
		t.Errorf("got %v %q", v, name)
	}
}

// Covers agrees with an exhaustive check of all short names over a small
// alphabet, and no short name contradicts its result about all names.
func TestCoversModel(t *testing.T) {
	exprs := rapid.SampledFrom([]string{"a", "b", "ab", "a*", "a+b", "(a|b)*", ".", "..", "a.", ".*b", "[^a].*", "(?i)A", `a\b.*`, `\Ba`, "a?b?", "(ab)*", "a{2}", "$", "^", "(a|bb)+", "c"})
	var names []string
	for _, a := range []string{"", "a", "b", "c", "-"} {
		for _, b := range []string{"", "a", "b", "c", "-"} {
			for _, c := range []string{"", "a", "b", "A"} {
				names = append(names, a+b+c)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(exprs, 1, 3).Draw(t, "parts"), rapid.SampledFrom([]string{"", "|"}).Draw(t, "by"))
		})
		target := expr.Draw(t, "target")
		covers := rapid.SliceOfN(expr, 0, 3).Draw(t, "covers")
		set, err := namesOfRegex(target)
		if err != nil {
			t.Fatal(err)
		}
		var sets []*nameSet
		for _, c := range covers {
			s, err := namesOfRegex(c)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, s)
		}
		meet := newWorkBound(10_000_000).Meet
		for i, c := range covers {
			if common := meet(set, sets[i]); !common && slices.ContainsFunc(names, func(n string) bool { return n != "" && set.Contains(n) && sets[i].Contains(n) }) ||
				meet(sets[i], set) != common || meet(set, nameList(names...)) != slices.ContainsFunc(names, set.Contains) {
				t.Fatalf("%q and %q have a name in common: %v", target, c, common)
			}
		}
		matches := func(expr, name string) bool {
			return regexp.MustCompile(`^(?:` + expr + `)$`).MatchString(name)
		}
		v, witness := newWorkBound(10_000_000).Covers(sets, set)
		covered := func(name string) bool {
			for _, c := range covers {
				if matches(c, name) {
					return true
				}
			}
			return false
		}
		switch v {
		case coversUnknown:
			t.Fatalf("unknown: %q in %q", target, covers)
		case coversNotAll:
			if witness == "" || !matches(target, witness) || covered(witness) {
				t.Fatalf("%q is no name of %q outside %q", witness, target, covers)
			}
		case coversAll:
			for _, n := range names {
				if n != "" && matches(target, n) && !covered(n) {
					t.Fatalf("%q is in %q and not in %q", n, target, covers)
				}
			}
		}
	})
}

func FuzzCovers(f *testing.F) {
	f.Add(`a|b`, `[ab]`, "a")
	f.Add(`(?i)k\b.*`, `.*`, "K")
	f.Fuzz(func(t *testing.T, target, cover, name string) {
		a, err := namesOfRegex(target)
		if err != nil {
			return
		}
		b, err := namesOfRegex(cover)
		if err != nil {
			return
		}
		v, witness := newWorkBound(200_000).Covers([]*nameSet{b}, a)
		if v == coversNotAll && (!a.Contains(witness) || b.Contains(witness)) {
			t.Fatalf("%q is not in %q only", witness, target)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return !inName(r) || r == '\ufffd' }) {
			return
		}
		if v == coversAll && a.Contains(name) && !b.Contains(name) {
			t.Fatalf("%q is in %q and not in %q", name, target, cover)
		}
	})
}
