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

	"github.com/google/go-cmp/cmp"

	"svc/gateway/diag"
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
		{"a hash presented as a key", ciEntry.Hash, "", ErrInvalid},
		{"nothing", "", "", ErrMissing},
		{"a space inside", ci + " x", "", ErrInvalid},
		{"a control character", ci + "\x00", "", ErrInvalid},
		{"beyond ASCII", ci + "ü", "", ErrInvalid},
		{"over 8 KiB", strings.Repeat("x", MaxKeyBytes+1), "", ErrInvalid},
		{"cut by one", ci[:len(ci)-1], "", ErrInvalid},
		{"other case", strings.ToUpper(ci), "", ErrInvalid},
		{"the prefix alone", keyPrefix, "", ErrInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			for try := range 3 {
				key, err := k.Verify(context.Background(), row.presented)
				if !errors.Is(err, row.err) || row.err != nil && row.err != ErrMissing && !errors.Is(err, ErrInvalid) || (err == nil) != (key != nil) || key != nil && key.ID != row.id {
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
		if _, err := k.Verify(context.Background(), text); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Verify(context.Background(), wrong); !errors.Is(err, ErrInvalid) {
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
				if _, err := k.Verify(context.Background(), text); err != nil {
					t.Fatal(err)
				}
			}
			c.add(10*time.Second - time.Nanosecond)
			key, err := k.Verify(context.Background(), text)
			if err != nil {
				t.Fatalf("just before: %v", err)
			}
			if err := k.Check(key); err != nil {
				t.Fatalf("open stream just before: %v", err)
			}
			c.add(time.Nanosecond)
			for range 3 {
				if _, err := k.Verify(context.Background(), text); err != ErrExpired {
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
	key, err := before.Verify(ctx, text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Verify(ctx, other); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}

	t.Run("an unchanged entry is still remembered", func(t *testing.T) {
		n := v.Stats().Computed
		if _, err := keyring(t, v, entry).Verify(ctx, text); err != nil || v.Stats().Computed != n {
			t.Errorf("%v, %d computed", err, v.Stats().Computed-n)
		}
	})
	t.Run("a changed entry drops the key, and lets the new one in at once", func(t *testing.T) {
		after := keyring(t, v, otherEntry)
		if _, err := after.Verify(ctx, text); !errors.Is(err, ErrInvalid) {
			t.Errorf("the old key: %v", err)
		}
		if _, err := after.Verify(ctx, other); err != nil {
			t.Errorf("the new key, refused a moment ago: %v", err)
		}
		if err := after.Check(key); !errors.Is(err, ErrInvalid) {
			t.Errorf("an open stream of the old key: %v", err)
		}
	})
	t.Run("a deleted key is refused, on open streams too", func(t *testing.T) {
		_, someone := makeKey(t, "someone", cheap)
		after := keyring(t, v, someone)
		if _, err := after.Verify(ctx, text); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		if err := after.Check(key); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		after.Activate()
		if n := len(*v.verified.m.Load()); n != 0 {
			t.Errorf("%d keys remembered that no entry fits", n)
		}
	})
	t.Run("a snapshot in use is not disturbed", func(t *testing.T) {
		if _, err := before.Verify(ctx, text); err != nil {
			t.Error(err)
		}
	})
	t.Run("a new expiry counts for a remembered key", func(t *testing.T) {
		short := entry
		short.ExpiresAt = epoch
		if _, err := keyring(t, v, short).Verify(ctx, text); err != ErrExpired {
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
			if _, err := k.Verify(context.Background(), text); err != nil {
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
			if _, err := k.Verify(ctx, text); err != nil && !(ctx == gone && errors.Is(err, context.Canceled)) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestQueueIsShortAndSharedFairly(t *testing.T) {
	g := newLimiter(2)
	for i := range maxSlotsPerID {
		if !g.acquire("victim") {
			t.Fatalf("place %d refused", i)
		}
	}
	if g.acquire("victim") {
		t.Error("one id took more than its share")
	}
	taken := maxSlotsPerID
	for i := 0; taken < maxSlots; i++ {
		if !g.acquire(fmt.Sprint("id", i)) {
			t.Fatalf("another id is refused at %d of %d places", taken, maxSlots)
		}
		taken++
	}
	if g.acquire("late") {
		t.Error("more than maxPlaces wait")
	}
	g.release("victim")
	if !g.acquire("late") {
		t.Error("a place that was left is not given again")
	}
}

func TestFullQueueIsBusyAndNotRemembered(t *testing.T) {
	text, entry := makeKey(t, "ci", cheap)
	v := NewVerifier(newClock().now)
	k := keyring(t, v, entry)
	for range maxSlotsPerID {
		v.limiter.acquire("ci")
	}
	if _, err := k.Verify(context.Background(), text); err != ErrBusy {
		t.Fatalf("got %v", err)
	}
	v.limiter.release("ci")
	if _, err := k.Verify(context.Background(), text); err != nil {
		t.Errorf("after the queue emptied: %v", err)
	}
	if v.Stats().Busy != 1 {
		t.Errorf("%+v", v.Stats())
	}
}

func TestAtMostHalfTheProcessorsCompute(t *testing.T) {
	for _, row := range []struct{ processors, cores int }{{1, 1}, {2, 1}, {3, 1}, {4, 2}, {64, 32}} {
		if g := newLimiter(row.processors); g.cores != int64(row.cores) {
			t.Errorf("%d processors: %d compute, want %d", row.processors, g.cores, row.cores)
		}
	}
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
	if key, err := k.Verify(context.Background(), "secret-15"); err != nil || key.ID != "k15" {
		t.Errorf("the sixteenth: %v, %v", key, err)
	}
	n := v.Stats().Computed
	if _, err := k.Verify(context.Background(), "secret-16"); !errors.Is(err, ErrInvalid) {
		t.Errorf("the seventeenth: %v", err)
	}
	if got := v.Stats().Computed - n; got != maxTried {
		t.Errorf("%d hashes, want %d", got, maxTried)
	}
}

func TestUnknownIDCostsWhatAWrongSecretCosts(t *testing.T) {
	_, entry := makeKey(t, "ci", cheap)
	v := NewVerifier(newClock().now)
	k := keyring(t, v, entry)
	for _, id := range []string{"ci", "nobody"} {
		wrong, _ := makeKey(t, id, cheap)
		n := v.Stats().Computed
		if _, err := k.Verify(context.Background(), wrong); !errors.Is(err, ErrInvalid) || v.Stats().Computed != n+1 {
			t.Errorf("%s: %v, %d hashes", id, err, v.Stats().Computed-n)
		}
	}
}

func TestMemoriesAreBounded(t *testing.T) {
	r := newRefused()
	now := time.Now()
	for i := range 3 * maxRefused {
		r.put(digest{byte(i), byte(i >> 8), byte(i >> 16)}, 1, now, ErrInvalid)
	}
	if len(r.m) != maxRefused || len(r.ring) != maxRefused {
		t.Errorf("%d refused keys remembered in %d places", len(r.m), len(r.ring))
	}
	last := 3*maxRefused - 1
	if r.get(digest{byte(last), byte(last >> 8), byte(last >> 16)}, 1, now) != ErrInvalid {
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
		{"two headers", "Authorization", "Bearer", []string{"Bearer k", "Bearer k"}, "", ErrInvalid},
		{"a tab between", "Authorization", "Bearer", []string{"Bearer\tk"}, "", ErrMissing},
		{"two words", "Authorization", "Bearer", []string{"Bearer a b"}, "", ErrInvalid},
		{"a control character", "Authorization", "Bearer", []string{"Bearer a\x01"}, "", ErrInvalid},
		{"8 KiB", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat("x", MaxKeyBytes)}, strings.Repeat("x", MaxKeyBytes), nil},
		{"over 8 KiB", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat("x", MaxKeyBytes+1)}, "", ErrInvalid},
		{"1 MiB", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat("x", 1<<20)}, "", ErrInvalid},
		{"1 MiB of spaces", "Authorization", "Bearer", []string{"Bearer " + strings.Repeat(" ", 1<<20) + "k"}, "", ErrInvalid},
		{"raw value", "X-Api-Key", "", []string{"k"}, "k", nil},
		{"raw value, name in any case", "x-api-KEY", "", []string{"k"}, "k", nil},
		{"raw value keeps a scheme as text", "X-Api-Key", "", []string{"Bearer k"}, "", ErrInvalid},
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

func TestNewKey(t *testing.T) {
	for _, id := range []string{"ci", "a", "team_a", "a-b_c", "x_" + strings.Repeat("A", 43), strings.Repeat("i", MaxIDBytes)} {
		text, err := NewKey(id)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := splitKey(text)
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

func TestConfigValidate(t *testing.T) {
	_, a := makeKey(t, "a", cheap)
	_, b := makeKey(t, "b", cheap)
	for _, row := range []struct {
		name   string
		change func(*Config)
		want   []string // path: code
	}{
		{"as it should be", func(*Config) {}, nil},
		{"off and empty", func(c *Config) { c.Enabled, c.Keys = false, nil }, nil},
		{"enabled without keys", func(c *Config) { c.Keys = nil }, []string{"keys: auth-keys-empty"}},
		{"enabled without keys but with oauth", func(c *Config) {
			c.Keys = nil
			c.OAuth.Enabled, c.OAuth.Issuer, c.OAuth.Audience, c.OAuth.JWKSURL = true, "https://i.example", "a", "https://i.example/k"
		}, nil},
		{"raw scheme", func(c *Config) { c.Scheme = "" }, nil},
		{"scheme of two words", func(c *Config) { c.Scheme = "Api Key" }, []string{"scheme: auth-scheme"}},
		{"no header", func(c *Config) { c.Header = "" }, []string{"header: auth-header"}},
		{"a header that frames", func(c *Config) { c.Header = "content-length" }, []string{"header: auth-header"}},
		{"a header with a space", func(c *Config) { c.Header = "X Key" }, []string{"header: auth-header"}},
		{"two keys with one id", func(c *Config) { c.Keys[1].ID = "a" }, []string{"keys[1].id: auth-key-duplicate"}},
		{"one key under two ids", func(c *Config) { c.Keys[1].Hash = a.Hash }, []string{"keys[1].hash: auth-hash-duplicate"}},
		{"no id", func(c *Config) { c.Keys[0].ID = "" }, []string{"keys[0].id: auth-key-id"}},
		{"an id with a space", func(c *Config) { c.Keys[0].ID = "a b" }, []string{"keys[0].id: auth-key-id"}},
		{"no hash", func(c *Config) { c.Keys[0].Hash = "" }, []string{"keys[0].hash: auth-key-hash"}},
		{"a bad hash", func(c *Config) { c.Keys[0].Hash = "x" }, []string{"keys[0].hash: auth-key-hash"}},
		{"expires before it was made", func(c *Config) { c.Keys[0].CreatedAt, c.Keys[0].ExpiresAt = epoch, epoch }, []string{"keys[0].expires_at: auth-key-expiry"}},
		{"oauth without auth", func(c *Config) {
			c.Enabled = false
			c.OAuth.Enabled, c.OAuth.Issuer, c.OAuth.Audience, c.OAuth.JWKSURL = true, "https://i.example", "a", "https://i.example/k"
		}, []string{"oauth.enabled: oauth-needs-auth"}},
		{"oauth without its fields", func(c *Config) { c.OAuth.Enabled = true },
			[]string{"oauth.issuer: oauth-required", "oauth.jwks_url: oauth-required", "oauth.audience: oauth-required"}},
		{"jwks_url in the clear", func(c *Config) { c.OAuth.JWKSURL = "http://i.example/k" }, []string{"oauth.jwks_url: oauth-url-insecure"}},
		{"jwks_url in the clear on loopback", func(c *Config) { c.OAuth.JWKSURL = "http://127.0.0.1:1/k" }, nil},
		{"issuer without host", func(c *Config) { c.OAuth.Issuer = "https:///x" }, []string{"oauth.issuer: oauth-url"}},
		{"issuer of another scheme", func(c *Config) { c.OAuth.Issuer = "ftp://i.example" }, []string{"oauth.issuer: oauth-url"}},
		{"public_url with a password", func(c *Config) { c.OAuth.PublicURL = "https://u:p@i.example" }, []string{"oauth.public_url: oauth-url"}},
		{"negative leeway", func(c *Config) { c.OAuth.Leeway = -1 }, []string{"oauth.leeway: oauth-leeway"}},
		{"no cache time", func(c *Config) { c.OAuth.JWKSCacheTTL = 0 }, []string{"oauth.jwks_cache_ttl: oauth-range"}},
		{"metadata path without slash", func(c *Config) { c.OAuth.MetadataPath = "x" }, []string{"oauth.metadata_path: oauth-metadata-path"}},
		{"metadata path on /mcp", func(c *Config) { c.OAuth.MetadataPath = "/mcp" }, []string{"oauth.metadata_path: oauth-metadata-path"}},
		{"an empty scope", func(c *Config) { c.OAuth.RequiredScopes = []string{"a", ""} }, []string{"oauth.required_scopes[1]: oauth-scope"}},
		{"cimd without bounds", func(c *Config) { c.OAuth.CIMD = CIMDConfig{} },
			[]string{"oauth.cimd.timeout: oauth-range", "oauth.cimd.cache_ttl: oauth-range", "oauth.cimd.max_body_bytes: oauth-range"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c Config
			c.SetDefaults()
			c.Enabled, c.Keys = true, []KeyConfig{a, b}
			row.change(&c)
			report := diag.New()
			c.Validate(report.Root())
			var got []string
			for _, f := range report.Findings() {
				got = append(got, f.Path+": "+f.Code)
			}
			want := map[string]bool{}
			for _, w := range row.want {
				want[w] = true
			}
			for _, g := range got {
				if !want[g] {
					t.Errorf("found %s", g)
				}
				delete(want, g)
			}
			for w := range want {
				t.Errorf("not found: %s", w)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	var c Config
	c.SetDefaults()
	if c.Enabled || c.Header != "Authorization" || c.Scheme != "Bearer" || c.OAuth.JWKSCacheTTL != 5*time.Minute ||
		c.OAuth.Leeway != 30*time.Second || c.OAuth.MetadataPath != "/.well-known/oauth-protected-resource" ||
		!cmp.Equal(c.OAuth.CIMD, CIMDConfig{Timeout: 5 * time.Second, MaxBodyBytes: 65536, CacheTTL: time.Hour}) {
		t.Errorf("%+v", c)
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
