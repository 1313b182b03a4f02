package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"svc/gateway/statefile"
)

// maxKept bounds the file of a head.
const maxKept = 16 << 10

// keptVersion is the form of that file.
const keptVersion = 1

// keptHead is the last signed checkpoint of a chain as the state directory keeps
// it, out of the audit file. The one that is kept may lag behind the file, by the
// checkpoints that a killed process had written and not kept.
type keptHead struct {
	Version int    `json:"version"`
	Path    string `json:"path"` // of the audit file
	Seq     uint64 `json:"seq"`
	Hash    string `json:"hash"`
	// Count is the checkpoint's, and Last the number of the one before it.
	Count uint64 `json:"checkpoint"`
	Last  uint64 `json:"last_checkpoint,omitempty"`
	Key   string `json:"key"`
	Sig   string `json:"sig"`
}

// text is what the signature covers.
func (h *keptHead) text() []byte {
	return fmt.Appendf(nil, "svc audit kept head 1\n%q\n%d\n%s\n%d\n%d\n", h.Path, h.Seq, h.Hash, h.Count, h.Last)
}

// TrailName names an audit file without telling where it stands.
func TrailName(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return hex.EncodeToString(sum[:4]), nil
}

// keptName is the file of the head of an audit file, and the path that it names.
func keptName(dir, path string) (name, abs string, err error) {
	trail, err := TrailName(path)
	if err != nil {
		return "", "", err
	}
	abs, err = filepath.Abs(path)
	return filepath.Join(dir, "audit-head-"+trail+".json"), abs, err
}

// keep signs a head and puts it in the place of the one before.
func (s *signer) keep(dir, path string, u unsigned) error {
	name, abs, err := keptName(dir, path)
	if err != nil {
		return err
	}
	h := keptHead{Version: keptVersion, Path: abs, Seq: u.last, Hash: u.hash.String(), Count: u.count, Last: u.prior, Key: s.id}
	h.Sig = base64.RawStdEncoding.EncodeToString(ed25519.Sign(s.key, h.text()))
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return statefile.Replace(name, append(b, '\n'))
}

// kept reads the head of an audit file. One that is absent is nil; one that
// cannot be read, is about another file, or has no good signature of the key is an
// error.
func (s *signer) kept(dir, path string) (*keptHead, error) {
	name, abs, err := keptName(dir, path)
	if err != nil {
		return nil, err
	}
	b, err := statefile.Read(name, maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var h keptHead
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	public, _ := s.key.Public().(ed25519.PublicKey)
	sig, err := base64.RawStdEncoding.DecodeString(h.Sig)
	switch {
	case h.Version != keptVersion:
		return nil, fmt.Errorf("%s has version %d, not %d", name, h.Version, keptVersion)
	case err != nil || !ed25519.Verify(public, h.text(), sig):
		return nil, fmt.Errorf("%s is not signed with the key %s: it names the key %s", name, s.id, clip(h.Key))
	case h.Path != abs:
		return nil, fmt.Errorf("%s is about the audit file %s", name, h.Path)
	case h.Seq == 0 || h.Count == 0:
		return nil, fmt.Errorf("%s names no line", name)
	}
	return &h, nil
}

// clip bounds a text of a file that is logged.
func clip(s string) string { return s[:min(len(s), 64)] }

// headToKeep is a head on its way to the state directory.
type headToKeep struct {
	signer *signer
	unsigned
}

// keepHead hands the last signed checkpoint over to be kept, unless it is the one
// of before.
func (w *leader) keepHead(before uint64) {
	if w.signer == nil || w.log.opts.StateDir == "" || w.sealer.last == before || w.sealer.hash == (Hash{}) {
		return
	}
	b := &w.log.background
	b.mu.Lock()
	if b.heads == nil {
		b.heads = make(map[string]headToKeep)
	}
	b.heads[w.cfg.Path] = headToKeep{w.signer, w.sealer.unsigned}
	b.mu.Unlock()
	token(b.headed)
}

// keepHeads writes the heads that were handed over. One that cannot be written
// is behind the file until the next one is.
func (b *background) keepHeads(l *Log) {
	b.mu.Lock()
	heads := b.heads
	b.heads = nil
	b.mu.Unlock()
	for path, h := range heads {
		err := h.signer.keep(l.opts.StateDir, path, h.unsigned)
		if failed := err != nil; l.headFailing.Swap(failed) != failed && failed {
			l.opts.Logger.Warn("the head of the audit chain cannot be kept in state_dir: an audit file that is altered meanwhile is not noticed at the next start",
				"path", path, "error", err)
		}
	}
}
