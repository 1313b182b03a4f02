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
	"time"

	"svc/gateway/statefile"
)

// Bounds on the file of known keys.
const (
	knownVersion = 1
	// maxKnownFile bounds the file in bytes: maxVerified lines of the longest id.
	maxKnownFile = 16 << 20
	// savePause is the least time between two writes.
	savePause = time.Second
)

// knownFile is the file of known keys: digests of presented keys that verified,
// so that a flood of wrong keys after a restart cannot keep the right ones out.
//
// It holds no key, and nothing that lets anybody in by itself: a digest counts
// only while the configuration has the entry, with the hash, that the key
// verified against. Only keys of the shape that [NewKey] makes are saved: their
// 256 random bits cannot be guessed from an HMAC, whereas a short secret of
// another shape must be protected by argon2id alone.
type knownFile struct {
	path    string
	log     *slog.Logger
	secret  [sha256.Size]byte
	read    []knownKey    // until the first keyring is activated
	changed chan struct{} // holds a value when memory is ahead of the file
}

// knownKey is one digest of the file.
type knownKey struct {
	ID     string `json:"id"`
	Digest []byte `json:"digest"`
	// Bound is the HMAC over the digest and the configured hash.
	Bound []byte `json:"bound"`
}

type knownContent struct {
	Version int        `json:"version"`
	Secret  []byte     `json:"secret"`
	Keys    []knownKey `json:"keys"`
}

// openKnown reads the file at path, or begins a new one with a new secret. One
// that cannot be used is ignored with a warning: its keys verify once more.
func openKnown(path string, log *slog.Logger) *knownFile {
	k := &knownFile{path: path, log: log, changed: make(chan struct{}, 1)}
	content, err := readKnown(path)
	switch {
	case err == nil:
		k.secret, k.read = [sha256.Size]byte(content.Secret), content.Keys
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
		return content, fmt.Errorf("it has mode %04o and must not be accessible to others", info.Mode().Perm())
	}
	data, err := statefile.Read(path, maxKnownFile)
	if err != nil {
		return content, err
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return content, err
	}
	switch {
	case content.Version != knownVersion:
		return content, fmt.Errorf("it has version %d, want %d", content.Version, knownVersion)
	case len(content.Secret) != sha256.Size:
		return content, fmt.Errorf("its secret has %d bytes, want %d", len(content.Secret), sha256.Size)
	case len(content.Keys) > maxVerified:
		return content, fmt.Errorf("it holds %d keys, more than %d", len(content.Keys), maxVerified)
	}
	return content, nil
}

// bind returns the HMAC that ties a digest to a configured hash. The input
// begins with a byte that no presented key holds, so that it is no digest.
func (k *knownFile) bind(d digest, hash string) []byte {
	mac := hmac.New(sha256.New, k.secret[:])
	mac.Write([]byte{0})
	mac.Write(d[:])
	mac.Write([]byte(hash))
	return mac.Sum(nil)
}

// take returns the keys of the file that fit a keyring, the first time; later
// none: what a reload has removed does not come back. It counts those that do
// not fit.
func (k *knownFile) take(ring *Keyring) (fits map[digest]fit, left int) {
	fits = make(map[digest]fit, len(k.read))
	for _, key := range k.read {
		e := ring.byID[key.ID]
		if e == nil || len(key.Digest) != sha256.Size || !hmac.Equal(key.Bound, k.bind(digest(key.Digest), e.hash)) {
			left++
			continue
		}
		fits[digest(key.Digest)] = fit{id: e.ID, hash: e.hash, saved: true}
	}
	k.read = nil
	return fits, left
}

// change notes that the file is out of date. It never waits.
func (k *knownFile) change() {
	if k == nil {
		return
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// write replaces the file by what is in memory.
func (k *knownFile) write(v *verified) {
	content := knownContent{Version: knownVersion, Secret: k.secret[:], Keys: []knownKey{}}
	for d, f := range *v.m.Load() {
		if f.saved {
			content.Keys = append(content.Keys, knownKey{ID: f.id, Digest: d[:], Bound: k.bind(d, f.hash)})
		}
	}
	data, err := json.Marshal(content)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(k.path), 0o700)
	}
	if err == nil {
		err = statefile.Replace(k.path, append(data, '\n'))
	}
	if err != nil {
		k.log.Warn("the file of known API keys was not written: after a restart each key is verified once more", "file", k.path, "error", err)
	}
}

// Run writes the file of known keys when they change, at most once a second,
// until ctx ends. It returns at once where there is no file.
func (v *Verifier) Run(ctx context.Context) {
	if v.known == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.known.changed:
			v.known.write(v.verified)
		}
		pause := time.NewTimer(savePause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// Close writes the file of known keys once more if they changed since it was
// written. It must be called after Run has returned.
func (v *Verifier) Close() {
	if v.known == nil {
		return
	}
	select {
	case <-v.known.changed:
		v.known.write(v.verified)
	default:
	}
}
