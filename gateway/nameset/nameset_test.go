package nameset

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// parse reads a set in the notation of these tests: =a,b names, ^a prefix, *a
// glob, /a expression, all.
func parse(t testing.TB, s string) *Set {
	t.Helper()
	var set *Set
	var err error
	switch {
	case s == "all":
		return All()
	case s[0] == '=':
		return Names(strings.Split(s[1:], ",")...)
	case s[0] == '^':
		return Prefix(s[1:])
	case s[0] == '%':
		set, err = Glob(s[1:])
	case s[0] == '/':
		set, err = Regex(s[1:])
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
		want           Verdict
		name           string
	}{
		{"all", "all", Covered, ""},
		{"/.*", "all", Covered, ""},
		{"/.+", "all", Covered, ""},
		{"/(?s).+", "all", Covered, ""},
		{"/[^a]*", "all", NotCovered, "a"},
		{"%*", "/x.*", Covered, ""},
		{"%?*", "all", Covered, ""},
		{"%??*", "all", NotCovered, "a"},
		{"^db_", "=db_a,db_b", Covered, ""},
		{"^db_", "=db_a,x", NotCovered, "x"},
		{"=a,b", "=b", Covered, ""},
		{"=a =b", "=a,b", Covered, ""},
		{"=a", "^a", NotCovered, "aa"},
		{"^d", "^db_", Covered, ""},
		{"^db_", "^d", NotCovered, "d"},
		{"^db_", "%db_*_x", Covered, ""},
		{"%*_x", "%db_*_x", Covered, ""},
		{"%*_x", "%db_*", NotCovered, "db_"},
		{"%[ab]*", "^a", Covered, ""},
		{"^a ^b", "%[ab]*", Covered, ""},
		{"^a ^b", "%[abc]*", NotCovered, "c"},
		{"=read,write", "/read|write", Covered, ""},
		{"=read,write", "/(read|write)_?", NotCovered, "read_"},
		{"/(?i)delete_.*", "^DELETE_", Covered, ""},
		{"^DELETE_", "/(?i)delete_.*", NotCovered, "delete_"},
		{"/(?i)k", "=K", Covered, ""}, // the Kelvin sign folds to k
		{`/\w+`, `/[a-z]+`, Covered, ""},
		{`/[a-z]+`, `/\w+`, NotCovered, "0"},
		{`/.*\bdrop\b.*`, "=drop,x drop y", Covered, ""},
		{`/.*\bdrop\b.*`, `/drop( .*)?`, Covered, ""},
		{`/.*\bdrop\b.*`, `/drop.*`, NotCovered, "drop0"},
		{`/a\Bb`, "=ab", Covered, ""},
		{`/^a$`, "=a", Covered, ""},
		{`/a{2,5}`, `/aaa?`, Covered, ""},
		{`/a{2,5}`, `/a{2,6}`, NotCovered, "aaaaaa"},
		{`/\p{L}+`, `/[a-zé]+`, Covered, ""},
		{"=x", `/a\bb`, Covered, ""}, // the empty set
		{"=x", `/[[:cntrl:]]`, Covered, ""},
		{"", `/$a`, Covered, ""},
		{"", "=a", NotCovered, "a"},
	} {
		t.Run(c.target+" in "+c.covers, func(t *testing.T) {
			var covers []*Set
			for _, s := range strings.Fields(c.covers) {
				covers = append(covers, parse(t, s))
			}
			target := parse(t, c.target)
			got, name := NewBudget(1_000_000).Covers(covers, target)
			if got != c.want || c.want == NotCovered && (!target.Contains(name) || len(name) != len(c.name)) {
				t.Errorf("got %v %q, want %v %q", got, name, c.want, c.name)
			}
		})
	}
}

// A query that is too large returns Unknown soon.
func TestCoversBounded(t *testing.T) {
	wide := parse(t, "/.*a.{18}")
	began := time.Now()
	if v, _ := NewBudget(1_000_000_000).Covers([]*Set{wide}, All()); v != NotCovered {
		t.Errorf("got %v", v) // the shortest name is found at once
	}
	v, _ := NewBudget(1_000_000_000).Covers([]*Set{wide, parse(t, "/.*[^a].{18}"), parse(t, "/.{1,18}")}, All())
	if v == NotCovered {
		t.Errorf("got %v", v)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	if v, _ := NewBudget(3).Covers([]*Set{parse(t, "/a+b+")}, parse(t, "/aa*bb*")); v != Unknown {
		t.Errorf("without budget: %v", v)
	}
	b := NewBudget(100)
	for range 20 {
		b.Covers([]*Set{parse(t, "/a+b+")}, parse(t, "/aa*bb*"))
	}
	if v, _ := b.Covers([]*Set{parse(t, "/a+b+")}, parse(t, "/aa*bb*")); v != Unknown {
		t.Error("a budget that is used up still answers")
	}
}

// Long lists are left out, but a result is never wrong because of it.
func TestCoversLongList(t *testing.T) {
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("tool_%d", i))
	}
	long := Names(append(names, "a")...)
	if v, name := NewBudget(1_000_000).Covers([]*Set{long}, parse(t, "/a|b+")); v == Covered || v == NotCovered && long.Contains(name) {
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
		set, err := Regex(target)
		if err != nil {
			t.Fatal(err)
		}
		var sets []*Set
		for _, c := range covers {
			s, err := Regex(c)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, s)
		}
		matches := func(expr, name string) bool {
			return regexp.MustCompile(`^(?:` + expr + `)$`).MatchString(name)
		}
		v, witness := NewBudget(10_000_000).Covers(sets, set)
		covered := func(name string) bool {
			for _, c := range covers {
				if matches(c, name) {
					return true
				}
			}
			return false
		}
		switch v {
		case Unknown:
			t.Fatalf("unknown: %q in %q", target, covers)
		case NotCovered:
			if witness == "" || !matches(target, witness) || covered(witness) {
				t.Fatalf("%q is no name of %q outside %q", witness, target, covers)
			}
		case Covered:
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
		a, err := Regex(target)
		if err != nil {
			return
		}
		b, err := Regex(cover)
		if err != nil {
			return
		}
		v, witness := NewBudget(200_000).Covers([]*Set{b}, a)
		if v == NotCovered && (!a.Contains(witness) || b.Contains(witness)) {
			t.Fatalf("%q is not in %q only", witness, target)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return !inName(r) || r == '\ufffd' }) {
			return
		}
		if v == Covered && a.Contains(name) && !b.Contains(name) {
			t.Fatalf("%q is in %q and not in %q", name, target, cover)
		}
	})
}
