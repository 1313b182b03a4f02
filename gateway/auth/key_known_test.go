package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// openTestVerifier opens a verifier with a file, and returns its log.
func openTestVerifier(path string) (*Verifier, *lockedBuffer) {
	logs := &lockedBuffer{}
	return OpenVerifier(newClock().now, path, slog.New(slog.NewTextHandler(logs, nil))), logs
}

// active returns the active keyring of some keys.
func active(t testing.TB, v *Verifier, keys ...KeyConfig) *Keyring {
	t.Helper()
	k := keyring(t, v, keys...)
	k.Activate()
	return k
}

// save verifies keys once and writes the file.
func save(t testing.TB, path string, keys map[string]KeyConfig) {
	t.Helper()
	v, _ := openTestVerifier(path)
	entries := make([]KeyConfig, 0, len(keys))
	for _, e := range keys {
		entries = append(entries, e)
	}
	k := active(t, v, entries...)
	for text := range keys {
		if _, err := k.Verify(t.Context(), text, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	v.Close()
}

// A key that verified before a restart is served after it while wrong keys with its id fill the
// queue: it costs no argon2id computation.
func TestKnownKeysSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "known-keys.json")
	ci, entry := makeKey(t, "ci", cheap)
	save(t, path, map[string]KeyConfig{ci: entry})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file: %v, %v", info, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte(ci[len(ci)-secretChars:])) || bytes.Contains(text, []byte(entry.Hash)) {
		t.Errorf("the file holds a key or its hash: %s", text)
	}

	v, logs := openTestVerifier(path)
	k := active(t, v, entry)
	fill(t, v.limiter, 1+maxQueuedPerOrigin, "192.0.2.1", "ci")
	wrong, err := NewKey("ci")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Verify(t.Context(), wrong, "192.0.2.1"); !errors.Is(err, ErrBusy) {
		t.Errorf("a wrong key while the queue is full: %v", err)
	}
	key, err := k.Verify(t.Context(), ci, "192.0.2.1")
	if err != nil || key.ID != "ci" {
		t.Errorf("the right key while the queue is full: %v, %v", key, err)
	}
	if n := v.Stats().Computed; n != 0 {
		t.Errorf("%d computations", n)
	}
	if logs.String() != "" {
		t.Errorf("log: %s", logs)
	}
}

// A key that the configuration no longer has is not accepted because of the file.
func TestSavedKeysCountOnlyWithTheirConfiguredHash(t *testing.T) {
	ci, entry := makeKey(t, "ci", cheap)
	other, otherEntry := makeKey(t, "other", cheap)
	_, replaced := makeKey(t, "ci", cheap)
	sameText, err := Hash(ci, cheap)
	if err != nil {
		t.Fatal(err)
	}
	expired := entry
	expired.ExpiresAt = epoch.Add(-time.Second)
	for _, tt := range []struct {
		name  string
		entry KeyConfig
		want  error
		busy  bool // the file has no effect
	}{
		{"the entry is gone", otherEntry, errInvalid, true},
		{"another secret under the id", replaced, errInvalid, true},
		{"another hash of the same key", KeyConfig{ID: "ci", Hash: sameText}, nil, true},
		{"the hash under another id", KeyConfig{ID: "ci2", Hash: entry.Hash}, errInvalid, true},
		{"the key has expired", expired, ErrExpired, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "known-keys.json")
			save(t, path, map[string]KeyConfig{ci: entry, other: otherEntry})
			v, _ := openTestVerifier(path)
			k := active(t, v, tt.entry)
			if _, err := k.Verify(t.Context(), ci, "192.0.2.1"); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if computed := v.Stats().Computed > 0; computed != tt.busy {
				t.Errorf("computed: %t", computed)
			}
			v.Close()
			// Keys that did not match are no longer in the file.
			again, _ := openTestVerifier(path)
			for _, key := range again.known.read {
				if key.ID != tt.entry.ID {
					t.Errorf("the file still holds %q", key.ID)
				}
			}
		})
	}
}

// A key that a reload removed and another one restores is verified again: the file is read only
// at the start.
func TestSavedKeysAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known-keys.json")
	ci, entry := makeKey(t, "ci", cheap)
	_, other := makeKey(t, "other", cheap)
	save(t, path, map[string]KeyConfig{ci: entry})
	v, _ := openTestVerifier(path)
	active(t, v, other)
	k := active(t, v, entry, other)
	if _, err := k.Verify(t.Context(), ci, "192.0.2.1"); err != nil || v.Stats().Computed != 1 {
		t.Errorf("%v, %d computations", err, v.Stats().Computed)
	}
}

// Secrets chosen by people can be guessed from an HMAC, not from argon2id, so they are not
// written.
func TestOnlyGeneratedKeysAreSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known-keys.json")
	hash, err := Hash("hunter2", cheap)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := openTestVerifier(path)
	k := active(t, v, KeyConfig{ID: "old", Hash: hash})
	if _, err := k.Verify(t.Context(), "hunter2", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	v.Close()
	if c, err := readKnown(path); err != nil || len(c.Keys) > 0 {
		t.Errorf("%d keys were written: %v", len(c.Keys), err)
	}
}

func TestADamagedFileOfKnownKeysIsIgnored(t *testing.T) {
	ci, entry := makeKey(t, "ci", cheap)
	change := func(change func(c *knownContent)) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			c, err := readKnown(path)
			if err != nil {
				t.Fatal(err)
			}
			change(&c)
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, path string)
		warned bool
	}{
		{"empty", write(""), true},
		{"no JSON", write("\x00\xff"), true},
		{"cut off", write(`{"version":1,"secret":"AAAA`), true},
		{"too large", write(strings.Repeat(" ", maxKnownFile+1)), true},
		{"another version", change(func(c *knownContent) { c.Version++ }), true},
		{"a short secret", change(func(c *knownContent) { c.Secret = c.Secret[:31] }), true},
		{"too many keys", change(func(c *knownContent) { c.Keys = make([]knownKey, maxVerified+1) }), true},
		{"readable by others", func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o640); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a directory", func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"another secret", change(func(c *knownContent) { c.Secret[0]++ }), false},
		{"another digest", change(func(c *knownContent) { c.Keys[0].Digest[0]++ }), false},
		{"a short digest", change(func(c *knownContent) { c.Keys[0].Digest = c.Keys[0].Digest[:3] }), false},
		{"another binding", change(func(c *knownContent) { c.Keys[0].Bound[0]++ }), false},
		{"no binding", change(func(c *knownContent) { c.Keys[0].Bound = nil }), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "known-keys.json")
			save(t, path, map[string]KeyConfig{ci: entry})
			tt.damage(t, path)
			v, logs := openTestVerifier(path)
			k := active(t, v, entry)
			if _, err := k.Verify(t.Context(), ci, "192.0.2.1"); err != nil {
				t.Errorf("the key: %v", err)
			}
			if n := v.Stats().Computed; n != 1 {
				t.Errorf("%d computations, want 1", n)
			}
			if warned := strings.Contains(logs.String(), "level=WARN"); warned != tt.warned {
				t.Errorf("log: %s", logs)
			}
			v.Close()
			if tt.name == "a directory" {
				return
			}
			again, _ := openTestVerifier(path)
			if len(again.known.read) != 1 {
				t.Errorf("the file that was written holds %d keys", len(again.known.read))
			}
		})
	}
}

// The file is written in the background, at once and then at most once a second.
func TestKnownKeysAreWrittenInTheBackground(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "known-keys.json")
		v, _ := openTestVerifier(path)
		texts, entries := make([]string, 3), make([]KeyConfig, 3)
		for i, id := range []string{"a", "b", "c"} {
			texts[i], entries[i] = makeKey(t, id, cheap)
		}
		k := active(t, v, entries...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go v.Run(ctx)
		saved := func() int {
			synctest.Wait()
			c, err := readKnown(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return len(c.Keys)
		}
		saved() // which secrets are configured
		<-time.After(savePause)
		for i, text := range texts {
			if _, err := k.Verify(t.Context(), text, "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
			if got := saved(); got != min(i+1, 1) {
				t.Errorf("%d keys are written after %d", got, i+1)
			}
		}
		<-time.After(savePause)
		if got := saved(); got != 3 {
			t.Errorf("%d keys are written after a second", got)
		}
	})
}
