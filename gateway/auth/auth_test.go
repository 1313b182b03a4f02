package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/base/diag"
)

// cheap are costs with which a test can verify often; real costs are measured separately.
var cheap = Params{MemoryKiB: 64, Time: 1, Threads: 1}

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests move.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(epoch.UnixNano())
	return c
}

func (c *clock) now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }

// makeKey returns a key text and its entry.
func makeKey(t testing.TB, id string, p Params) (string, KeyConfig) {
	t.Helper()
	text, err := NewKey(id)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := Hash(text, p)
	if err != nil {
		t.Fatal(err)
	}
	return text, KeyConfig{ID: id, Hash: hash}
}

func keyring(t testing.TB, v *Verifier, keys ...KeyConfig) *Keyring {
	t.Helper()
	k, err := v.Keyring(Config{Enabled: true, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestVerify(t *testing.T) {
	ci, ciEntry := makeKey(t, "ci", cheap)
	odd, oddEntry := makeKey(t, "team_a_b", cheap)
	gone, _ := makeKey(t, "gone", cheap)
	legacyHash, err := Hash("legacy-secret", cheap)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := NewKey("ci")
	if err != nil {
		t.Fatal(err)
	}
	k := keyring(t, NewVerifier(newClock().now), ciEntry, oddEntry, KeyConfig{ID: "old", Hash: legacyHash})
	for _, row := range []struct {
		name, presented, id string
		err                 error
	}{
		{"the right key", ci, "ci", nil},
		{"an id with underscores", odd, "team_a_b", nil},
		{"a key of another shape", "legacy-secret", "old", nil},
		{"the right id and a wrong secret", wrong, "", errWrongHash},
		{"an unknown id", gone, "", errUnknownID},
		{"another shape that fits nothing", "nothing", "", errNoHash},
		{"a hash presented as a key", ciEntry.Hash, "", errInvalid},
		{"nothing", "", "", ErrMissing},
		{"a space inside", ci + " x", "", errCharacters},
		{"a control character", ci + "\x00", "", errCharacters},
		{"beyond ASCII", ci + "ü", "", errCharacters},
		{"over 8 KiB", strings.Repeat("x", maxKeyBytes+1), "", errKeySize},
		{"cut by one", ci[:len(ci)-1], "", errInvalid},
		{"other case", strings.ToUpper(ci), "", errInvalid},
		{"the prefix alone", keyPrefix, "", errInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			for try := range 3 {
				key, err := k.Verify(context.Background(), row.presented, "192.0.2.1")
				if !errors.Is(err, row.err) || row.err != nil && row.err != ErrMissing && !errors.Is(err, errInvalid) || (err == nil) != (key != nil) || key != nil && key.ID != row.id {
					t.Errorf("try %d: %+v, %v; want %q, %v", try, key, err, row.id, row.err)
				}
			}
		})
	}
}

func TestKeyVerifiedBeforeCostsNoHash(t *testing.T) {
	text, entry := makeKey(t, "ci", cheap)
	wrong, _ := makeKey(t, "ci", cheap)
	v := NewVerifier(newClock().now)
	k := keyring(t, v, entry)
	for range 100 {
		if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Verify(context.Background(), wrong, "192.0.2.1"); !errors.Is(err, errInvalid) {
			t.Fatal(err)
		}
	}
	if s := v.Stats(); s.Computed != 2 || s.Remembered != 99 {
		t.Errorf("%+v, want 2 computed, 99 remembered", s)
	}
}

func TestExpiryAtTheSecond(t *testing.T) {
	for _, seen := range []bool{false, true} {
		t.Run(fmt.Sprintf("verified before=%v", seen), func(t *testing.T) {
			text, entry := makeKey(t, "ci", cheap)
			entry.ExpiresAt = epoch.Add(10 * time.Second)
			c := newClock()
			v := NewVerifier(c.now)
			k := keyring(t, v, entry)
			if seen {
				if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != nil {
					t.Fatal(err)
				}
			}
			c.add(10*time.Second - time.Nanosecond)
			key, err := k.Verify(context.Background(), text, "192.0.2.1")
			if err != nil {
				t.Fatalf("just before: %v", err)
			}
			if err := k.Check(key); err != nil {
				t.Fatalf("open stream just before: %v", err)
			}
			c.add(time.Nanosecond)
			for range 3 {
				if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != ErrExpired {
					t.Errorf("at the second: %v", err)
				}
			}
			if err := k.Check(key); err != ErrExpired {
				t.Errorf("open stream at the second: %v", err)
			}
			if _, ok := v.verified.get(v.digester.sum(text)); ok {
				t.Error("the expired key is still remembered")
			}
		})
	}
}

func TestReload(t *testing.T) {
	ctx := context.Background()
	text, entry := makeKey(t, "ci", cheap)
	other, otherEntry := makeKey(t, "ci", cheap)
	v := NewVerifier(newClock().now)
	before := keyring(t, v, entry)
	key, err := before.Verify(ctx, text, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Verify(ctx, other, "192.0.2.1"); !errors.Is(err, errInvalid) {
		t.Fatal(err)
	}

	t.Run("an unchanged entry is still remembered", func(t *testing.T) {
		n := v.Stats().Computed
		if _, err := keyring(t, v, entry).Verify(ctx, text, "192.0.2.1"); err != nil || v.Stats().Computed != n {
			t.Errorf("%v, %d computed", err, v.Stats().Computed-n)
		}
	})
	t.Run("a changed entry drops the key, and lets the new one in at once", func(t *testing.T) {
		after := keyring(t, v, otherEntry)
		if _, err := after.Verify(ctx, text, "192.0.2.1"); !errors.Is(err, errInvalid) {
			t.Errorf("the old key: %v", err)
		}
		if _, err := after.Verify(ctx, other, "192.0.2.1"); err != nil {
			t.Errorf("the new key, refused a moment ago: %v", err)
		}
		if err := after.Check(key); !errors.Is(err, errInvalid) {
			t.Errorf("an open stream of the old key: %v", err)
		}
	})
	t.Run("a deleted key is refused, on open streams too", func(t *testing.T) {
		_, someone := makeKey(t, "someone", cheap)
		after := keyring(t, v, someone)
		if _, err := after.Verify(ctx, text, "192.0.2.1"); !errors.Is(err, errInvalid) {
			t.Error(err)
		}
		if err := after.Check(key); !errors.Is(err, errInvalid) {
			t.Error(err)
		}
		after.Activate()
		if n := len(*v.verified.m.Load()); n != 0 {
			t.Errorf("%d keys remembered that no entry fits", n)
		}
	})
	t.Run("a snapshot in use is not disturbed", func(t *testing.T) {
		if _, err := before.Verify(ctx, text, "192.0.2.1"); err != nil {
			t.Error(err)
		}
	})
	t.Run("a new expiry counts for a remembered key", func(t *testing.T) {
		short := entry
		short.ExpiresAt = epoch
		if _, err := keyring(t, v, short).Verify(ctx, text, "192.0.2.1"); err != ErrExpired {
			t.Error(err)
		}
	})
}

func TestSameKeyInFlightIsVerifiedOnce(t *testing.T) {
	text, entry := makeKey(t, "ci", Params{MemoryKiB: 8 << 10, Time: 2, Threads: 1})
	v := NewVerifier(time.Now)
	k := keyring(t, v, entry)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := v.Stats(); s.Computed != 1 || s.Busy != 0 {
		t.Errorf("%+v, want one computation", s)
	}
}

func TestWaiterWhoLeavesDisturbsNobody(t *testing.T) {
	text, entry := makeKey(t, "ci", Params{MemoryKiB: 32 << 10, Time: 3, Threads: 1})
	k := keyring(t, NewVerifier(time.Now), entry)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	var wg sync.WaitGroup
	for i := range 20 {
		ctx := context.Background()
		if i%2 == 0 {
			ctx = gone
		}
		wg.Go(func() {
			if _, err := k.Verify(ctx, text, "192.0.2.1"); err != nil && !(ctx == gone && errors.Is(err, context.Canceled)) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestKeysOfAnotherShapeAreTriedAgainstSixteenHashes(t *testing.T) {
	var entries []KeyConfig
	for i := range 20 {
		h, err := Hash(fmt.Sprintf("secret-%d", i), cheap)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, KeyConfig{ID: fmt.Sprint("k", i), Hash: h})
	}
	v := NewVerifier(newClock().now)
	k := keyring(t, v, entries...)
	if key, err := k.Verify(context.Background(), "secret-15", "192.0.2.1"); err != nil || key.ID != "k15" {
		t.Errorf("the sixteenth: %v, %v", key, err)
	}
	n := v.Stats().Computed
	if _, err := k.Verify(context.Background(), "secret-16", "192.0.2.1"); !errors.Is(err, errInvalid) {
		t.Errorf("the seventeenth: %v", err)
	}
	if got := v.Stats().Computed - n; got != maxTried {
		t.Errorf("%d hashes, want %d", got, maxTried)
	}
}

// Entries with without_id are compared with keys that contain no id before all others, at any
// place in the file, and the seventeenth of them is an error of the file.
func TestKeysOfAnotherShapeAfterSixteenEntries(t *testing.T) {
	var entries []KeyConfig
	for i := range 30 {
		h, err := Hash(fmt.Sprintf("pass-%d", i), cheap)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, KeyConfig{ID: fmt.Sprint("k", i), Hash: h, WithoutID: i >= 14})
	}
	k := keyring(t, NewVerifier(newClock().now), entries[:30]...)
	for _, i := range []int{14, 29} {
		if key, err := k.Verify(context.Background(), fmt.Sprint("pass-", i), "192.0.2.1"); err != nil || key.ID != fmt.Sprint("k", i) {
			t.Errorf("entry %d: %v, %v", i, key, err)
		}
	}
	cfg := Config{Enabled: true, Header: "Authorization", Keys: entries}
	if errs := codes(cfg, "auth-keys-without-id"); len(errs) != 0 {
		t.Errorf("sixteen are an error: %v", errs)
	}
	cfg.Keys[3].WithoutID = true
	if errs := codes(cfg, "auth-keys-without-id"); len(errs) != 1 || errs[0] != "auth.keys[29].hash" {
		t.Errorf("the seventeenth is reported at %v", errs)
	}
}

// An entry that a key with its id has matched is not compared with keys that contain no id, so that
// sixteen ordinary keys before the entry of such a key do not keep it out.
func TestKeysFoundByTheirIDDoNotCount(t *testing.T) {
	var entries []KeyConfig
	var ordinary []string
	for i := range 16 {
		text, entry := makeKey(t, fmt.Sprint("ordinary-", i), cheap)
		entries, ordinary = append(entries, entry), append(ordinary, text)
	}
	h, err := Hash("of-another-shape", cheap)
	if err != nil {
		t.Fatal(err)
	}
	entries = append(entries, KeyConfig{ID: "other", Hash: h})
	c := newClock()
	v := NewVerifier(c.now)
	k := keyring(t, v, entries...)
	if _, err := k.Verify(t.Context(), "of-another-shape", "192.0.2.1"); !errors.Is(err, errInvalid) {
		t.Fatalf("the seventeenth of entries that may all be for such a key: %v", err)
	}
	for _, text := range ordinary {
		if _, err := k.Verify(t.Context(), text, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	c.add(refusedTTL)
	if key, err := k.Verify(t.Context(), "of-another-shape", "192.0.2.1"); err != nil || key.ID != "other" {
		t.Errorf("after the others were used: %v %v", key, err)
	}
	fresh := keyring(t, v, entries...)
	fresh.Activate()
	v.verified.drop(v.digester.sum("of-another-shape"))
	n := v.Stats().Computed
	if key, err := fresh.Verify(t.Context(), "of-another-shape", "192.0.2.1"); err != nil || key.ID != "other" || v.Stats().Computed != n+1 {
		t.Errorf("after a reload: %v %v, %d hashes", key, err, v.Stats().Computed-n)
	}
}

// codes returns the places of the findings of a code.
func codes(cfg Config, code string) (places []string) {
	check := diag.New()
	cfg.Validate(check.Root().Field("auth"))
	for _, f := range check.Findings() {
		if f.Code == code {
			places = append(places, f.Path)
		}
	}
	return places
}

func TestUnknownIDCostsWhatAWrongSecretCosts(t *testing.T) {
	_, entry := makeKey(t, "ci", cheap)
	v := NewVerifier(newClock().now)
	k := keyring(t, v, entry)
	for _, id := range []string{"ci", "nobody"} {
		wrong, _ := makeKey(t, id, cheap)
		n := v.Stats().Computed
		if _, err := k.Verify(context.Background(), wrong, "192.0.2.1"); !errors.Is(err, errInvalid) || v.Stats().Computed != n+1 {
			t.Errorf("%s: %v, %d hashes", id, err, v.Stats().Computed-n)
		}
	}
}

func TestMemoriesAreBounded(t *testing.T) {
	r := newRefused()
	now := time.Now()
	for i := range 3 * maxRefused {
		r.put(digest{byte(i), byte(i >> 8), byte(i >> 16)}, 1, now, errInvalid)
	}
	if len(r.m) != maxRefused || len(r.ring) != maxRefused {
		t.Errorf("%d refused keys remembered in %d places", len(r.m), len(r.ring))
	}
	last := 3*maxRefused - 1
	if r.get(digest{byte(last), byte(last >> 8), byte(last >> 16)}, 1, now) != errInvalid {
		t.Error("the newest is forgotten")
	}
	if r.get(digest{}, 1, now) != nil {
		t.Error("the oldest is remembered")
	}
	if r.get(digest{byte(last), byte(last >> 8), byte(last >> 16)}, 1, now.Add(refusedTTL)) != nil {
		t.Error("remembered for longer than its time")
	}
	v := newVerified()
	m := make(map[digest]fit, maxVerified)
	for i := range maxVerified {
		m[digest{byte(i), byte(i >> 8), byte(i >> 16)}] = fit{}
	}
	v.m.Store(&m)
	v.put(digest{255, 255, 255, 255}, fit{id: "new"})
	if n := len(*v.m.Load()); n > maxVerified {
		t.Errorf("%d verified keys remembered", n)
	}
	if _, ok := v.get(digest{255, 255, 255, 255}); !ok {
		t.Error("the newest is forgotten")
	}
}

func TestHeader(t *testing.T) {
	for _, row := range []struct {
		name, header, scheme string
		values               []string
		want                 string
		err                  error
	}{
		{"as configured", "Authorization", "Bearer", []string{"Bearer k"}, "k", nil},
		{"lower-case scheme", "Authorization", "Bearer", []string{"bearer k"}, "k", nil},
		{"upper-case scheme", "Authorization", "Bearer", []string{"BEARER k"}, "k", nil},
		{"double spaces", "Authorization", "Bearer", []string{"Bearer   k"}, "k", nil},
		{"space around", "Authorization", "Bearer", []string{" Bearer k "}, "k", nil},
		{"no header", "Authorization", "Bearer", nil, "", ErrMissing},
		{"empty header", "Authorization", "Bearer", []string{""}, "", ErrMissing},
		{"scheme alone", "Authorization", "Bearer", []string{"Bearer"}, "", ErrMissing},
		{"scheme and space alone", "Authorization", "Bearer", []string{"Bearer "}, "", ErrMissing},
		{"another scheme", "Authorization", "Bearer", []string{"Basic k"}, "", ErrMissing},
		{"a scheme that starts alike", "Authorization", "Bearer", []string{"Bearerk x"}, "", ErrMissing},
		{"the raw key where a scheme is asked", "Authorization", "Bearer", []string{"k"}, "", ErrMissing},
		{"two headers", "Authorization", "Bearer", []string{"Bearer k", "Bearer k"}, "", errRepeated},
		{"a tab between", "Authorization", "Bearer", []string{"Bearer\tk"}, "", ErrMissing},
		{"two words", "Authorization", "Bearer", []string{"Bearer a b"}, "", errCharacters},
		{"a control character", "Authorization", "Bearer", []string{"Bearer a\x01"}, "", errCharacters},
		{"32 KiB", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat("x", maxTokenBytes)}, strings.Repeat("x", maxTokenBytes), nil},
		{"over 32 KiB", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat("x", maxTokenBytes+1)}, "", errTokenSize},
		{"1 MiB", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat("x", 1<<20)}, "", errTokenSize},
		{"1 MiB of spaces", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat(" ", 1<<20) + "k"}, "", errTokenSize},
		{"raw value", "X-Api-Key", "", []string{"k"}, "k", nil},
		{"raw value, name in any case", "x-api-KEY", "", []string{"k"}, "k", nil},
		{"raw value keeps a scheme as text", "X-Api-Key", "", []string{"Bearer k"}, "", errCharacters},
		{"raw value of spaces", "X-Api-Key", "", []string{"  "}, "", ErrMissing},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := http.Header{}
			for _, v := range row.values {
				h.Add(row.header, v)
			}
			got, err := NewHeader(row.header, row.scheme).Key(h)
			if got != row.want || err != row.err {
				t.Errorf("%.40q, %v; want %.40q, %v", got, err, row.want, row.err)
			}
		})
	}
}

func TestPrincipalsOfDifferentKindsShareNothing(t *testing.T) {
	all := []Principal{
		{Kind: KindIP, Value: "a"}, {Kind: KindKey, Value: "a"}, {Kind: KindOAuth, Issuer: "i", Value: "a"},
		{Kind: KindOAuth, Issuer: "ia", Value: ""}, {Kind: KindOAuth, Issuer: "", Value: "ia"},
		{Kind: KindOAuth, Issuer: "1:i", Value: "a"}, {Kind: KindOAuth, Issuer: "1", Value: ":ia"},
	}
	seen := map[string]int{}
	for i := range all {
		key := string(all[i].AppendKey(nil))
		if j, twice := seen[key]; twice || !all[i].Same(&all[i]) {
			t.Errorf("%+v and %+v share %q", all[i], all[j], key)
		}
		seen[key] = i
		for j := range all {
			if (i == j) != all[i].Same(&all[j]) {
				t.Errorf("Same(%+v, %+v)", all[i], all[j])
			}
		}
	}
}
