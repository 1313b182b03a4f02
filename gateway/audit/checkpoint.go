package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strconv"
	"time"
)

// maxUnsigned is the number of bytes of lines after which a signed checkpoint is written
// regardless of the time. It bounds how far the log is read back when it
// is opened.
const maxUnsigned = 16 << 20

// unsigned describes the part of a chain after the last signed checkpoint.
type unsigned struct {
	count uint64 // signed checkpoints so far
	last  uint64 // number of the last signed checkpoint
	hash  Hash   // hash of the last signed checkpoint
	prior uint64 // number of the signed checkpoint before the last one
	bytes int64  // size of the lines after the last signed checkpoint
	began int64  // end time of the first line after it, in nanoseconds; 0 without lines
}

// due reports whether a signed checkpoint must precede a line whose request ended at the
// given time. No two lines between neighboring signatures are further apart than the
// checkpoint interval; a verifier relies on this bound (decision AUD30).
func (u *unsigned) due(at int64, interval time.Duration) bool {
	if u.began == 0 {
		return false
	}
	return u.bytes >= maxUnsigned || at-u.began > int64(interval) || u.began-at > int64(interval)
}

// signing is the key and the interval that a checkpoint announces for the checkpoints
// after it.
type signing struct {
	key      string
	interval time.Duration
}

func signs(cfg Config, s *signer) signing {
	if !cfg.Chain || s == nil {
		return signing{}
	}
	return signing{s.id, cfg.CheckpointInterval}
}

// appendItems appends the lines of items to w.out, with the checkpoints that are due
// between them.
func (w *fileWriter) appendItems(items []item) {
	signs := w.chain.hashed && w.signer != nil
	for i := range items {
		it := &items[i]
		if it.event != "" {
			w.out = w.checkpoint(w.out, it.event)
			continue
		}
		if signs {
			switch {
			case w.first == 0 && len(w.out) == 0: // the first line of a file is a checkpoint
				w.out = w.checkpoint(w.out, eventContinue)
			case w.chain.due(it.at, w.cfg.CheckpointInterval):
				w.out = w.checkpoint(w.out, eventInterval)
			}
			if w.chain.began == 0 {
				w.chain.began = it.at
			}
		}
		w.out = w.chain.appendLine(w.out, it.body)
	}
}

const (
	sigStart = `,"sig":"`
	sigTail  = len(sigStart) + (ed25519.SignatureSize*8+5)/6 + len(`"`) // base64 without padding
)

// signedText is the input of a checkpoint's signature: the hash of the line before, which
// covers all lines before, and the checkpoint's own line up to the signature. line is the
// part of the line that the line's hash covers, without the signature.
func signedText(prev Hash, line ...[]byte) []byte {
	b := append([]byte(nil), "svc audit checkpoint 2\n"...)
	b = append(b, prev[:]...)
	for _, part := range line {
		b = append(b, part...)
	}
	return b
}

// appendSignature appends the signature to the body of a checkpoint, which becomes the
// next line of the chain.
func (s *signer) appendSignature(body []byte, next *chainWriter) []byte {
	start := strconv.AppendUint([]byte(lineStart), next.seq+1, 10)
	sig := ed25519.Sign(s.key, signedText(next.prev, start, body))
	body = append(body, sigStart...)
	body = base64.RawStdEncoding.AppendEncode(body, sig)
	return append(body, '"')
}

// signedBy reports whether the key signed the checkpoint. covered is the part of the line
// that the line's hash covers.
func (c *Checkpoint) signedBy(key ed25519.PublicKey, prev Hash, covered []byte) bool {
	sig, err := base64.RawStdEncoding.Strict().DecodeString(c.Sig)
	if err != nil {
		return false
	}
	n := len(covered) - sigTail
	if n < 0 || !bytes.HasPrefix(covered[n:], []byte(sigStart)) {
		return false
	}
	return ed25519.Verify(key, signedText(prev, covered[:n]), sig)
}
