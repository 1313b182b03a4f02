package auth

import (
	"strings"
	"testing"
)

func TestNewKey(t *testing.T) {
	for _, id := range []string{"ci", "a", "team_a", "a-b_c", "x_" + strings.Repeat("A", 43), strings.Repeat("i", MaxIDBytes)} {
		text, err := NewKey(id)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := SplitKey(text)
		if !ok || got != id || len(text) != len("svc_gw__")+len(id)+43 {
			t.Errorf("%s names %q, %v", text, got, ok)
		}
	}
	for _, id := range []string{"", "a b", "ü", "a\n", strings.Repeat("i", MaxIDBytes+1)} {
		if text, err := NewKey(id); err == nil {
			t.Errorf("%q gives %s", id, text)
		}
	}
	a, _ := NewKey("a")
	if b, _ := NewKey("a"); a == b {
		t.Error("two keys are alike")
	}
}

func TestPHC(t *testing.T) {
	const good = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$MDEyMzQ1Njc4OWFiY2RlZg"
	if h, err := parsePHC(good); err != nil || h.String() != good {
		t.Fatalf("%v, %v", h, err)
	}
	replace := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for _, row := range []struct{ name, phc, want string }{
		{"empty", "", "is not an argon2id hash"},
		{"a key instead of a hash", "svc_gw_ci_x", "is not an argon2id hash"},
		{"argon2i", replace("argon2id", "argon2i"), "argon2i hash"},
		{"argon2d", replace("argon2id", "argon2d"), "argon2d hash"},
		{"bcrypt", "$2b$10$abcdefghijklmnopqrstuv", "2b hash"},
		{"version 16", replace("v=19", "v=16"), "version 19"},
		{"no version", replace("v=19$", ""), "is not an argon2id hash"},
		{"4 GiB", replace("m=64", "m=4194304"), "256 MiB"},
		{"just over 256 MiB", replace("m=64", "m=262145"), "256 MiB"},
		{"t of 2^31", replace("t=1", "t=2147483648"), "passes"},
		{"t of 2^64", replace("t=1", "t=18446744073709551616"), "whole number"},
		{"t of 11", replace("t=1", "t=11"), "passes"},
		{"t of 0", replace("t=1", "t=0"), "passes"},
		{"p of 0", replace("p=1", "p=0"), "parallelism"},
		{"p of 17", replace("p=1", "p=17"), "parallelism"},
		{"p of 257", replace("p=1", "p=257"), "parallelism"},
		{"m under 8p", replace("m=64,t=1,p=1", "m=64,t=1,p=9"), "8 KiB for each lane"},
		{"leading zero", replace("m=64", "m=064"), "whole number"},
		{"plus sign", replace("m=64", "m=+64"), "whole number"},
		{"other order", replace("m=64,t=1", "t=1,m=64"), "in this order"},
		{"a parameter missing", replace(",p=1", ""), "in this order"},
		{"a parameter more", replace(",p=1", ",p=1,keyid=x"), "in this order"},
		{"empty salt", replace("c2FsdHNhbHQ", ""), "salt of 0 bytes"},
		{"short salt", replace("c2FsdHNhbHQ", "c2FsdA"), "salt of 4 bytes"},
		{"short hash", replace("MDEyMzQ1Njc4OWFiY2RlZg", "MDEyMzQ1Njc4OWFi"), "hash of 12 bytes"},
		{"long hash", replace("MDEyMzQ1Njc4OWFiY2RlZg", strings.Repeat("MDEyMzQ1", 12)), "hash of 72 bytes"},
		{"bad base64", replace("c2FsdHNhbHQ", "c2Fs*HNhbHQ"), "base64 without padding"},
		{"padding", good + "==", "base64 without padding"},
		{"line break in base64", replace("c2FsdHNhbHQ", "c2Fs\ndHNhbHQ"), "base64 without padding"},
		{"trailing bits", replace("c2FsdHNhbHQ", "c2FsdHNhbHR"), "base64 without padding"},
		{"a part more", good + "$x", "is not an argon2id hash"},
		{"very long", good + strings.Repeat("A", 1000), "longer than"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := parsePHC(row.phc)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v, want %q", err, row.want)
			}
			if strings.Contains(err.Error(), "MDEyMzQ1Njc4") {
				t.Errorf("the error repeats the hash: %v", err)
			}
		})
	}
}

// The test vector of the reference implementation.
func TestHashOfAnotherProgram(t *testing.T) {
	const phc = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	h, err := parsePHC(phc)
	if err != nil {
		t.Fatal(err)
	}
	if !h.matches("password") || h.matches("passworD") {
		t.Error("the known answer is not reproduced")
	}
}
