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

	"svc/gateway/base/files"
)

// maxSavedHead bounds the size of the file of a saved head.
const maxSavedHead = 16 << 10

// savedHeadVersion is the version of the file format and of the text that is signed.
const savedHeadVersion = 2

// savedHead is the last signed checkpoint of a chain, saved in the state directory apart
// from the audit file. The saved head may be older than the file: a
// process that is killed has written checkpoints that it did not save.
type savedHead struct {
	Version int    `json:"version"`
	Path    string `json:"path"` // path of the audit file
	Seq     uint64 `json:"seq"`
	Hash    string `json:"hash"`
	// Count is the count of the checkpoint, Last the number of the signed checkpoint
	// before it.
	Count uint64 `json:"checkpoint"`
	Last  uint64 `json:"last_checkpoint,omitempty"`
	// Oldest is the number of the oldest line of the log.
	Oldest uint64 `json:"oldest"`
	Key    string `json:"key"`
	Sig    string `json:"sig"`
}

// text is the input of the signature.
func (h *savedHead) text() []byte {
	return fmt.Appendf(nil, "svc audit saved head %d\n%q\n%d\n%s\n%d\n%d\n%d\n", h.Version, h.Path, h.Seq, h.Hash, h.Count, h.Last, h.Oldest)
}

// trailName returns a name for an audit file that does not reveal the file's path.
func trailName(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return hex.EncodeToString(sum[:4]), nil
}

// savedHeadName returns the file of the saved head of an audit file, and the absolute
// path of the audit file.
func savedHeadName(dir, path string) (name, abs string, err error) {
	trail, err := trailName(path)
	if err != nil {
		return "", "", err
	}
	abs, err = filepath.Abs(path)
	return filepath.Join(dir, "audit-head-"+trail+".json"), abs, err
}

// saveHead signs a head and replaces the saved one.
func (s *signer) saveHead(dir, path string, u unsigned, oldest uint64) error {
	name, abs, err := savedHeadName(dir, path)
	if err != nil {
		return err
	}
	h := savedHead{Version: savedHeadVersion, Path: abs, Seq: u.last, Hash: u.hash.String(), Count: u.count, Last: u.prior, Oldest: oldest, Key: s.id}
	h.Sig = base64.RawStdEncoding.EncodeToString(ed25519.Sign(s.key, h.text()))
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return files.Replace(name, append(b, '\n'))
}

// loadHead reads the saved head of an audit file, or nil when there is none. A head that
// cannot be read, that belongs to another file, or whose signature does not verify, is an
// error.
func (s *signer) loadHead(dir, path string) (*savedHead, error) {
	name, abs, err := savedHeadName(dir, path)
	if err != nil {
		return nil, err
	}
	b, err := files.Read(name, maxSavedHead)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var h savedHead
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	public, _ := s.key.Public().(ed25519.PublicKey)
	sig, err := base64.RawStdEncoding.DecodeString(h.Sig)
	switch {
	case h.Version != savedHeadVersion:
		return nil, fmt.Errorf("%s has version %d, and this program reads version %d", name, h.Version, savedHeadVersion)
	case err != nil || !ed25519.Verify(public, h.text(), sig):
		return nil, fmt.Errorf("%s is not signed with the key %s: it names the key %s", name, s.id, clip(h.Key))
	case h.Path != abs:
		return nil, fmt.Errorf("%s belongs to the audit file %s", name, h.Path)
	case h.Seq == 0 || h.Count == 0:
		return nil, fmt.Errorf("%s names no line", name)
	}
	return &h, nil
}

// clip bounds the length of a text from a file before it is logged.
func clip(s string) string { return s[:min(len(s), 64)] }

// headToSave is a head that waits to be saved in the state directory.
type headToSave struct {
	signer *signer
	unsigned
	oldest uint64
}

// queueHead queues the last signed checkpoint to be saved, unless its number is the given
// one.
func (w *fileWriter) queueHead(before uint64) {
	if w.signer == nil || w.log.opts.StateDir == "" || w.chain.last == before || w.chain.hash == (Hash{}) {
		return
	}
	b := &w.log.background
	b.mu.Lock()
	if b.heads == nil {
		b.heads = make(map[string]headToSave)
	}
	b.heads[w.cfg.Path] = headToSave{w.signer, w.chain.unsigned, w.oldest}
	b.mu.Unlock()
	token(b.headed)
}

// saveHeads saves the queued heads. When saving fails, the saved head stays older than
// the file until the next head is saved.
func (b *background) saveHeads(l *Log) {
	b.mu.Lock()
	heads := b.heads
	b.heads = nil
	b.mu.Unlock()
	for path, h := range heads {
		err := h.signer.saveHead(l.opts.StateDir, path, h.unsigned, h.oldest)
		if failed := err != nil; l.headFailing.Swap(failed) != failed && failed {
			l.opts.Logger.Warn("the head of the audit chain cannot be saved in state_dir: the next start cannot detect that the audit file was altered",
				"path", path, "error", err)
		}
	}
}
