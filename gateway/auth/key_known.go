package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"svc/gateway/base/files"
	"svc/gateway/base/retry"
)

// Bounds of the file of known keys.
const (
	knownVersion = 1
	// maxKnownFile bounds the file in bytes: maxVerified lines of the longest id.
	maxKnownFile = 16 << 20
	// savePause is the minimum time between two writes.
	savePause = time.Second
)

// knownFile is the file of known keys: digests of presented keys that verified, so that a
// flood of wrong keys after a restart does not delay valid ones.
//
// The file contains no key, and nothing that is sufficient to authenticate: a digest is
// used only while the configuration has the entry, with the hash, that the key verified
// against. Only keys in the format of [NewKey] are saved: their 256 random bits cannot be
// guessed from an HMAC, whereas a short secret in another format must be protected by
// argon2id.
//
// It also has the secrets that were configured, as [Secret], and when they were removed, so that
// sessions which ended with a secret do not come back with it after a restart.
type knownFile struct {
	path    string
	log     *slog.Logger
	secret  [sha256.Size]byte
	read    []knownKey    // until the first keyring is activated
	tenures []savedTenure // as read
	floor   int64
	changed chan struct{} // holds a value when the memory is newer than the file
}

// knownKey is one digest of the file.
type knownKey struct {
	ID     string `json:"id"`
	Digest []byte `json:"digest"`
	// Bound is the HMAC of the digest and the configured hash.
	Bound []byte `json:"bound"`
}

type knownContent struct {
	Version int           `json:"version"`
	Secret  []byte        `json:"secret"`
	Keys    []knownKey    `json:"keys"`
	Secrets []savedTenure `json:"secrets"`
	Floor   int64         `json:"floor,omitempty"`
}

// openKnown reads the file at path, or starts a new one with a new secret. An unusable
// file is ignored with a warning: its keys are verified once more, and its removals forgotten.
func openKnown(path string, log *slog.Logger) *knownFile {
	k := &knownFile{path: path, log: log, changed: make(chan struct{}, 1)}
	content, err := readKnown(path)
	switch {
	case err == nil:
		k.secret, k.read = [sha256.Size]byte(content.Secret), content.Keys
		k.tenures, k.floor = content.Secrets, content.Floor
		return k
	case !errors.Is(err, fs.ErrNotExist):
		log.Warn("the file of known API keys is ignored and replaced: each key is verified once more", "file", path, "error", err)
	}
	k.secret = newSecret()
	return k
}

func readKnown(path string) (knownContent, error) {
	var content knownContent
	info, err := os.Stat(path)
	if err != nil {
		return content, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return content, fmt.Errorf("the file has mode %04o and must not be accessible to others", info.Mode().Perm())
	}
	data, err := files.Read(path, maxKnownFile)
	if err != nil {
		return content, err
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return content, err
	}
	switch {
	case content.Version != knownVersion:
		return content, fmt.Errorf("the file has version %d, want %d", content.Version, knownVersion)
	case len(content.Secret) != sha256.Size:
		return content, fmt.Errorf("the secret in the file has %d bytes, want %d", len(content.Secret), sha256.Size)
	case len(content.Keys) > maxVerified:
		return content, fmt.Errorf("the file has %d keys, more than %d", len(content.Keys), maxVerified)
	}
	return content, nil
}

// bind returns the HMAC that binds a digest to a configured hash. Its input begins with a
// byte that no presented key contains, so that the result is never the digest of a key.
func (k *knownFile) bind(d digest, hash string) []byte {
	mac := hmac.New(sha256.New, k.secret[:])
	mac.Write([]byte{0})
	mac.Write(d[:])
	mac.Write([]byte(hash))
	return mac.Sum(nil)
}

// take returns the keys of the file that match a keyring on the first call, and none
// later: a key that a reload has removed does not become valid again. It counts the keys
// that do not match.
func (k *knownFile) take(ring *Keyring) (fits map[digest]fit, left int) {
	fits = make(map[digest]fit, len(k.read))
	for _, key := range k.read {
		at := -1
		if len(key.Digest) == sha256.Size {
			at = slices.IndexFunc(ring.byID[key.ID], func(e *entry) bool {
				return hmac.Equal(key.Bound, k.bind(digest(key.Digest), e.hash))
			})
		}
		if at < 0 {
			left++
			continue
		}
		fits[digest(key.Digest)] = fit{id: key.ID, hash: ring.byID[key.ID][at].hash, saved: true}
	}
	k.read = nil
	return fits, left
}

// change marks the file as out of date. It never blocks.
func (k *knownFile) change() {
	if k == nil {
		return
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// write replaces the file by the current digests and tenures.
func (k *knownFile) write(v *Verifier) {
	tenures := v.tenures.Load()
	content := knownContent{Version: knownVersion, Secret: k.secret[:], Keys: []knownKey{}, Secrets: tenures.saved(), Floor: tenures.floor}
	for d, f := range *v.verified.m.Load() {
		if f.saved {
			content.Keys = append(content.Keys, knownKey{ID: f.id, Digest: d[:], Bound: k.bind(d, f.hash)})
		}
	}
	data, err := json.Marshal(content)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(k.path), 0o700)
	}
	if err == nil {
		err = files.Replace(k.path, append(data, '\n'))
	}
	if err != nil {
		k.log.Warn("writing the file of known API keys failed: after a restart each key is verified once more", "file", k.path, "error", err)
	}
}

// Run writes the file of known keys after changes, at most once a second, until ctx ends.
// It returns at once if there is no file.
func (v *Verifier) Run(ctx context.Context) {
	if v.known == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.known.changed:
			v.known.write(v)
		}
		if !retry.Wait(ctx, savePause) {
			return
		}
	}
}

// Close writes the file of known keys if they changed since the last write. It must be
// called after Run has returned.
func (v *Verifier) Close() {
	if v.known == nil {
		return
	}
	select {
	case <-v.known.changed:
		v.known.write(v)
	default:
	}
}
