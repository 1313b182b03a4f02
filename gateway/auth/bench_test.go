package auth

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// A known key: the cost of every request.
func BenchmarkKnownKey(b *testing.B) {
	text, entry := makeKey(b, "ci", cheap)
	k := keyring(b, NewVerifier(time.Now), entry)
	h := NewHeader("Authorization", "Bearer")
	header := http.Header{"Authorization": {"Bearer " + text}}
	b.ReportAllocs()
	for b.Loop() {
		presented, err := h.Key(header)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := k.Verify(context.Background(), presented, "192.0.2.1"); err != nil {
			b.Fatal(err)
		}
	}
}

// One of ten thousand known keys.
func BenchmarkKnownKeyOfMany(b *testing.B) {
	text, entry := makeKey(b, "ci", cheap)
	entries := []KeyConfig{entry}
	v := NewVerifier(time.Now)
	m := map[digest]fit{}
	for i := range 10_000 {
		m[digest{byte(i), byte(i >> 8)}] = fit{}
	}
	v.verified.m.Store(&m)
	k := keyring(b, v, entries...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != nil {
			b.Fatal(err)
		}
	}
}

// The computation for an unknown key, with the costs of keygen.
func BenchmarkArgon2id(b *testing.B) {
	text, entry := makeKey(b, "ci", DefaultParams())
	h, err := parsePHC(entry.Hash)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !h.matches(text) {
			b.Fatal("does not match")
		}
	}
}
