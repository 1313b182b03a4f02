package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// numberedKey returns a key text of an id for the entry n of hashes, and the entry.
func numberedKey(t testing.TB, id string, n int) (string, HashConfig) {
	t.Helper()
	marked := id
	if n != 0 {
		marked = fmt.Sprintf("%s.%d", id, n)
	}
	text, entry := makeKey(t, marked, cheap)
	return text, HashConfig{N: n, Hash: entry.Hash}
}

// Every secret of a key identifies the same caller, and costs one computation: the number in the
// key text selects its entry, and a key without a number is compared with the entries without.
func TestSeveralSecretsOfOneClient(t *testing.T) {
	old, oldHash := numberedKey(t, "reader", 0)
	second, secondHash := numberedKey(t, "reader", 2)
	third, thirdHash := numberedKey(t, "reader", 30)
	whole, wholeEntry := makeKey(t, "reader.7", cheap)
	other, otherEntry := makeKey(t, "else", cheap)
	v := NewVerifier(newClock().now)
	k := keyring(t, v, KeyConfig{ID: "reader", Hashes: []HashConfig{oldHash, secondHash, thirdHash, {N: 7, Hash: otherEntry.Hash}}},
		wholeEntry, otherEntry)
	for _, tt := range []struct {
		text, id string
		n        int
	}{{old, "reader", 0}, {second, "reader", 2}, {third, "reader", 30}, {whole, "reader.7", 0}, {other, "else", 0}} {
		before := v.Stats().Computed
		key, err := k.Verify(context.Background(), tt.text, "192.0.2.1")
		if err != nil || key.ID != tt.id || key.N != tt.n {
			t.Errorf("%s of %d: %+v, %v", tt.id, tt.n, key, err)
		}
		if n := v.Stats().Computed - before; n != 1 {
			t.Errorf("%s of %d: %d computations, want 1", tt.id, tt.n, n)
		}
	}
	for _, tt := range []struct {
		id   string
		want error
	}{{"reader.9", errUnknownN}, {"reader.2", errWrongHash}, {"reader.02", errUnknownID}, {"reader.0", errUnknownID}, {"nobody.2", errUnknownID}} {
		wrong, _ := makeKey(t, tt.id, cheap)
		before := v.Stats().Computed
		if _, err := k.Verify(context.Background(), wrong, "192.0.2.1"); err != tt.want || v.Stats().Computed-before != 1 {
			t.Errorf("%s: %v, want %v; %d computations", tt.id, err, tt.want, v.Stats().Computed-before)
		}
	}
	a, _ := k.Verify(context.Background(), old, "192.0.2.1")
	b, _ := k.Verify(context.Background(), second, "192.0.2.1")
	if p, q := a.Principal(), b.Principal(); !p.Same(&q) || string(p.AppendKey(nil)) != string(q.AppendKey(nil)) || q.KeyN != 2 {
		t.Errorf("%+v and %+v are different callers", p, q)
	}
}

// Removing one secret ends what it opened, and leaves the other secrets of the key.
func TestARemovedSecretEndsAtOnce(t *testing.T) {
	old, oldHash := numberedKey(t, "reader", 0)
	second, secondHash := numberedKey(t, "reader", 2)
	path := filepath.Join(t.TempDir(), "known-keys.json")
	v, _ := openTestVerifier(path)
	both := active(t, v, KeyConfig{ID: "reader", Hashes: []HashConfig{oldHash, secondHash}})
	first, err := both.Verify(context.Background(), old, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	next, err := both.Verify(context.Background(), second, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	holder := next.Principal()
	if opened := first.Principal().Secret; !both.Holds(&holder, opened, 1) {
		t.Error("a session of the old secret is refused to the new one while both are accepted")
	}
	v.Close()

	restarted, _ := openTestVerifier(path)
	for name, v := range map[string]*Verifier{"reload": v, "restart": restarted} {
		one := active(t, v, KeyConfig{ID: "reader", Hashes: []HashConfig{secondHash}})
		before := v.Stats().Computed
		if _, err := one.Verify(context.Background(), second, "192.0.2.1"); err != nil || v.Stats().Computed != before {
			t.Errorf("%s: the secret that stays: %v, %d computations", name, err, v.Stats().Computed-before)
		}
		if _, err := one.Verify(context.Background(), old, "192.0.2.1"); !errors.Is(err, errInvalid) {
			t.Errorf("%s: the removed secret: %v", name, err)
		}
		if one.Check(first) == nil || one.Check(next) != nil {
			t.Errorf("%s: streams: %v, %v", name, one.Check(first), one.Check(next))
		}
		if one.Holds(&holder, first.Principal().Secret, 1) || !one.Holds(&holder, holder.Secret, 1) {
			t.Errorf("%s: a session of the removed secret stays open, or that of the other ended", name)
		}
	}
}

// A single hash in the place of hashes ends the sessions of the secrets that it does not have,
// also of those that were a single hash before; the hash of another replica does not.
func TestASingleHashEndsTheRemovedSecretsOfHashes(t *testing.T) {
	_, a := numberedKey(t, "reader", 0)
	_, b := numberedKey(t, "reader", 0)
	holder := Principal{Kind: KindKey, Value: "reader"}
	single := func(h HashConfig) KeyConfig { return KeyConfig{ID: "reader", Hash: h.Hash} }
	list := KeyConfig{ID: "reader", Hashes: []HashConfig{a, b}}
	opened := func(k *Keyring, h HashConfig) Secret { return k.find("reader", h.Hash).secret }

	v := NewVerifier(newClock().now)
	before := active(t, v, single(a))
	both := active(t, v, list)
	if !both.Holds(&holder, opened(before, a), 1) {
		t.Error("a session ends when its secret becomes one of hashes")
	}
	for name, after := range map[string]*Keyring{
		"reload":         active(t, v, single(b)),
		"another reload": active(t, v, single(b)),
		"restart":        active(t, NewVerifier(newClock().now), single(b)),
	} {
		if after.Holds(&holder, opened(both, a), 1) {
			t.Errorf("%s: a session of the removed secret stays open", name)
		}
		if !after.Holds(&holder, opened(both, b), 1) {
			t.Errorf("%s: a session of the secret that stays is ended", name)
		}
		if name != "restart" && after.Holds(&holder, opened(before, a), 1) {
			t.Errorf("%s: a session from before hashes stays open after its secret was removed", name)
		}
	}
	replica := active(t, NewVerifier(newClock().now), single(b))
	if !replica.Holds(&holder, opened(before, a), 1) {
		t.Error("a session ends at a replica with its own hash of the key")
	}
}

// A secret expires with its entry, or with the whole key.
func TestSecretsExpireByThemselves(t *testing.T) {
	clock := newClock()
	old, oldHash := numberedKey(t, "reader", 1)
	second, secondHash := numberedKey(t, "reader", 2)
	oldHash.ExpiresAt = clock.now().Add(time.Hour)
	k := keyring(t, NewVerifier(clock.now), KeyConfig{ID: "reader", Hashes: []HashConfig{oldHash, secondHash}, ExpiresAt: clock.now().Add(2 * time.Hour)})
	for _, want := range [][2]error{{nil, nil}, {ErrExpired, nil}, {ErrExpired, ErrExpired}} {
		for i, text := range []string{old, second} {
			if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != want[i] {
				t.Errorf("secret %d: %v, want %v", i+1, err, want[i])
			}
		}
		clock.add(time.Hour)
	}
}

func TestHashesValidate(t *testing.T) {
	_, h := numberedKey(t, "x", 0)
	_, o := numberedKey(t, "x", 0)
	two := func(n, m int) []HashConfig { return []HashConfig{{N: n, Hash: h.Hash}, {N: m, Hash: o.Hash}} }
	for _, tt := range []struct {
		name string
		key  KeyConfig
		want string // code and place; empty if valid
	}{
		{"one of each", KeyConfig{Hashes: two(0, 2)}, ""},
		{"two without a number", KeyConfig{Hashes: two(0, 0)}, ""},
		{"hash and hashes", KeyConfig{Hash: h.Hash, Hashes: two(0, 2)}, "auth-key-hashes auth.keys[0].hashes"},
		{"neither", KeyConfig{}, "auth-key-hash auth.keys[0].hash"},
		{"an empty list", KeyConfig{Hashes: []HashConfig{}}, "auth-key-hashes auth.keys[0].hashes"},
		{"five", KeyConfig{Hashes: append(two(1, 2), HashConfig{N: 3, Hash: h.Hash}, HashConfig{N: 4, Hash: h.Hash}, HashConfig{N: 5, Hash: h.Hash})}, "auth-key-hashes auth.keys[0].hashes"},
		{"a number twice", KeyConfig{Hashes: two(2, 2)}, "auth-key-n auth.keys[0].hashes[1].n"},
		{"a negative number", KeyConfig{Hashes: two(0, -1)}, "auth-key-n auth.keys[0].hashes[1].n"},
		{"a number over the bound", KeyConfig{Hashes: two(0, MaxN+1)}, "auth-key-n auth.keys[0].hashes[1].n"},
		{"a key without an id that is replaced by one with", KeyConfig{Hashes: two(0, 1), WithoutID: true}, ""},
		{"an entry without a hash", KeyConfig{Hashes: []HashConfig{{N: 1}}}, "auth-key-hash auth.keys[0].hashes[0].hash"},
	} {
		tt.key.ID = "x"
		cfg := Config{Enabled: true, Header: "Authorization", Keys: []KeyConfig{tt.key}}
		var got []string
		for _, code := range []string{"auth-key-hash", "auth-key-hashes", "auth-key-n"} {
			for _, place := range codes(cfg, code) {
				got = append(got, code+" "+place)
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A secret, or a key, that is removed and put back does not revive what was opened before it was
// removed, neither after a reload nor after a restart. What it opens later is its own.
func TestASecretThatIsPutBackRevivesNothing(t *testing.T) {
	_, a := numberedKey(t, "reader", 1)
	_, b := numberedKey(t, "reader", 2)
	_, other := makeKey(t, "other", cheap)
	list := func(entries ...HashConfig) KeyConfig { return KeyConfig{ID: "reader", Hashes: entries} }
	single := func(h HashConfig) KeyConfig { return KeyConfig{ID: "reader", Hash: h.Hash} }
	holder := Principal{Kind: KindKey, Value: "reader"}
	for _, tt := range []struct {
		name           string
		first, without []KeyConfig
		putBack        KeyConfig
		staysOpen      bool // what b opened
	}{
		{"an entry of hashes", []KeyConfig{list(a, b)}, []KeyConfig{list(b)}, list(a, b), true},
		{"in the other order", []KeyConfig{list(a, b)}, []KeyConfig{list(b)}, list(b, a), true},
		{"a key with hashes", []KeyConfig{list(a, b)}, []KeyConfig{other}, list(a, b), false},
		{"a key with one hash", []KeyConfig{single(a)}, []KeyConfig{other}, single(a), false},
		{"one hash in the place of hashes", []KeyConfig{list(a, b)}, []KeyConfig{single(b)}, list(a, b), true},
		{"hashes in the place of one hash", []KeyConfig{single(a)}, []KeyConfig{list(b)}, single(a), true},
	} {
		for _, restarts := range []bool{false, true} {
			clock := newClock()
			path := filepath.Join(t.TempDir(), "known-keys.json")
			v := OpenVerifier(clock.now, path, slog.New(slog.DiscardHandler))
			under := func(keys ...KeyConfig) *Keyring {
				if restarts {
					v.Close()
					v = OpenVerifier(clock.now, path, slog.New(slog.DiscardHandler))
				}
				clock.add(time.Second)
				k := active(t, v, keys...)
				clock.add(time.Second)
				return k
			}
			k := under(tt.first...)
			opened, at := k.find("reader", a.Hash).secret, clock.now().UnixNano()
			if !k.Holds(&holder, opened, at) {
				t.Errorf("%s, restarts %v: a session is ended before its secret is removed", tt.name, restarts)
			}
			second, _ := secretOf(b.Hash, true), under(tt.without...)
			k = under(tt.putBack)
			if k.Holds(&holder, opened, at) {
				t.Errorf("%s, restarts %v: a session of the removed secret is open again", tt.name, restarts)
			}
			if tt.putBack.Hashes != nil && k.Holds(&holder, second, at) != tt.staysOpen {
				t.Errorf("%s, restarts %v: a session of the other secret: %v", tt.name, restarts, !tt.staysOpen)
			}
			if !k.Holds(&holder, opened, clock.now().UnixNano()) {
				t.Errorf("%s, restarts %v: a session that the secret opened after it was put back is ended", tt.name, restarts)
			}
			again := clock.now().UnixNano()
			under(tt.without...)
			if k = under(tt.putBack); k.Holds(&holder, opened, again) {
				t.Errorf("%s, restarts %v: a second removal ended nothing", tt.name, restarts)
			}
		}
	}
}

// The memory of removals is bounded; what is forgotten ends the sessions of that time and before.
func TestRemovalsAreBounded(t *testing.T) {
	_, a := makeKey(t, "reader", cheap)
	k := keyring(t, NewVerifier(newClock().now), a)
	many := &tenures{of: map[tenureID]tenure{}}
	for i := range maxTenures + 100 {
		many.of[tenureID{key: fmt.Sprint("gone", i)}] = tenure{ended: int64(i + 1)}
	}
	next, changed := many.under(k, newClock().now())
	if !changed || next.floor != 100 || len(next.of) != maxTenures+2 {
		t.Errorf("floor %d, %d tenures", next.floor, len(next.of))
	}
	if secret := secretOf(a.Hash, false); !next.ended("reader", secret, 100) || next.ended("reader", secret, 101) {
		t.Error("the floor does not end what was opened before it, or ends more")
	}
}
