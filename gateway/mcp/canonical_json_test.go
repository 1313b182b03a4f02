package mcp

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestJSON(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"white space", " { \"a\" : [ 1 , true , null ] } ", `{"a":[1,true,null]}`},
		{"order of members", `{"b":1,"a":2,"B":3,"é":4,"😀":5,"ﬀ":6}`, `{"B":3,"a":2,"b":1,"é":4,"ﬀ":6,"😀":5}`},
		{"order of elements stays", `[3,1,2]`, `[3,1,2]`},
		{"escapes", `"\u0041\/\u00e9\ud83d\ude00\u0001\""`, `"A/é😀\u0001\""`},
		{"zero-width characters stay", `"a\u200bb"`, "\"a\u200bb\""},
		{"characters that HTML escapes stay", `"<&>"`, `"<&>"`},
		{"names that differ in case", `{"Type":1,"type":2}`, `{"Type":1,"type":2}`},
		{"nested", `{"z":{"b":[{"d":1.0,"c":1}]}}`, `{"z":{"b":[{"c":1,"d":1}]}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := JSON([]byte(row.in))
			if err != nil || string(got) != row.want {
				t.Errorf("%s, %v; want %s", got, err, row.want)
			}
		})
	}
	for _, in := range []string{"", "{", `{} {}`, `{"a":1}x`, "nul"} {
		if got, err := JSON([]byte(in)); !errors.Is(err, errNotOneValue) {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, row := range []struct {
		same []string
		want string
	}{
		{[]string{"0", "-0", "0.0", "0e9", "-0.000e-5"}, "0"},
		{[]string{"1", "1.0", "1e0", "10e-1", "0.1e1", "0.01E+2", "100e-02"}, "1"},
		{[]string{"100", "1e2", "1E+2", "0.1e3"}, "1e2"},
		{[]string{"-1.5", "-15e-1", "-1.50"}, "-15e-1"},
		{[]string{"9007199254740993"}, "9007199254740993"},
		{[]string{"1e99999999999999999999", "10e99999999999999999998"}, "1e99999999999999999999"},
	} {
		for _, s := range row.same {
			if got := canonicalNumber(s); got != row.want {
				t.Errorf("%s: %s, want %s", s, got, row.want)
			}
		}
	}
	long := "1e" + strings.Repeat("9", maxExponent+1)
	if got := canonicalNumber(long); got != long {
		t.Errorf("a number whose exponent is too long: %s", got)
	}
}

// The form of a number has its value, and equal numbers have one form.
func TestNumberKeepsItsValue(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?`)
	rat := func(t *rapid.T, s string) *big.Rat {
		r, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%q is no number", s)
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		a := number.Draw(t, "a")
		form := canonicalNumber(a)
		if rat(t, a).Cmp(rat(t, form)) != 0 || canonicalNumber(form) != form {
			t.Fatalf("%s became %s", a, form)
		}
		b := number.Draw(t, "b")
		if equal := rat(t, a).Cmp(rat(t, b)) == 0; equal != (form == canonicalNumber(b)) {
			t.Fatalf("%s and %s: %s and %s", a, b, form, canonicalNumber(b))
		}
	})
}

// The canonical form has the value of the text, and is its own canonical form.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,"\u00e9"]}`, `"\ud83d\ude00"`, `1e400`, `[[[]]]`, `{"":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		form, err := JSON(raw)
		if err != nil {
			return
		}
		if !json.Valid(form) || !utf8.Valid(form) {
			t.Fatalf("%q became %q", raw, form)
		}
		again, err := JSON(form)
		if err != nil || string(again) != string(form) {
			t.Fatalf("%q became %q, then %q, %v", raw, form, again, err)
		}
	})
}
