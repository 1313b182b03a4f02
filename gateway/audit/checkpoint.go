package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"time"
)

// maxUnsigned is how many bytes of lines follow a signed checkpoint before the
// next one is written, however short the time. It bounds how far the log is read
// back when it is opened.
const maxUnsigned = 16 << 20

// unsigned is what follows the last signed checkpoint of a chain.
type unsigned struct {
	count uint64 // of signed checkpoints so far
	last  uint64 // number of the last of them
	hash  Hash   // of the last of them
	prior uint64 // number of the one before it
	bytes int64  // of the lines after it
	began int64  // end of what the first line after it tells of, in nanoseconds; 0 without lines
}

// due reports whether a signed checkpoint goes before a line that tells of
// something that ended at a time: no two lines between neighboring signatures are
// further apart than the checkpoint interval. A verifier relies on it.
func (u *unsigned) due(at int64, interval time.Duration) bool {
	if u.began == 0 {
		return false
	}
	return u.bytes >= maxUnsigned || at-u.began > int64(interval) || u.began-at > int64(interval)
}

// signing is what a checkpoint tells about those after it: their key, and how far
// apart they are.
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

// seal appends the lines of items to w.out, and the checkpoints that are due
// between them.
func (w *leader) seal(items []item) {
	signs := w.sealer.chain && w.signer != nil
	for i := range items {
		it := &items[i]
		if it.event != "" {
			w.out = w.checkpoint(w.out, it.event)
			continue
		}
		if signs {
			switch {
			case w.first == 0 && len(w.out) == 0: // a file begins with a checkpoint
				w.out = w.checkpoint(w.out, EventContinue)
			case w.sealer.due(it.at, w.cfg.CheckpointInterval):
				w.out = w.checkpoint(w.out, EventInterval)
			}
			if w.sealer.began == 0 {
				w.sealer.began = it.at
			}
		}
		w.out = w.sealer.seal(w.out, it.body)
	}
}

const (
	sigStart = `,"sig":"`
	sigTail  = len(sigStart) + (ed25519.SignatureSize*8+5)/6 + len(`"`) // base64 without padding
)

// signedText is what a checkpoint's signature covers: the hash of the line
// before, and with it all lines before, and the checkpoint's own line up to the
// signature. line is what the hash of the line covers, without the signature.
func signedText(prev Hash, line ...[]byte) []byte {
	b := append([]byte(nil), "svc audit checkpoint 2\n"...)
	b = append(b, prev[:]...)
	for _, part := range line {
		b = append(b, part...)
	}
	return b
}

// signedTextV1 is what the signature of a checkpoint without a count covers:
// that the line with this number follows the hash.
func signedTextV1(seq uint64, prev Hash) []byte {
	b := append([]byte(nil), "svc audit checkpoint 1\n"...)
	b = binary.BigEndian.AppendUint64(b, seq)
	return append(b, prev[:]...)
}

// appendSignature appends the signature of the body of a checkpoint that is
// sealed next.
func (s *signer) appendSignature(body []byte, next *sealer) []byte {
	start := strconv.AppendUint([]byte(lineStart), next.seq+1, 10)
	sig := ed25519.Sign(s.key, signedText(next.prev, start, body))
	body = append(body, sigStart...)
	body = base64.RawStdEncoding.AppendEncode(body, sig)
	return append(body, '"')
}

// signedBy reports whether a checkpoint is signed by a key. covered is what the
// hash of its line covers.
func (c *Checkpoint) signedBy(key ed25519.PublicKey, seq uint64, prev Hash, covered []byte) bool {
	sig, err := base64.RawStdEncoding.Strict().DecodeString(c.Sig)
	if err != nil {
		return false
	}
	if c.Count == 0 {
		return ed25519.Verify(key, signedTextV1(seq, prev), sig)
	}
	n := len(covered) - sigTail
	if n < 0 || !bytes.HasPrefix(covered[n:], []byte(sigStart)) {
		return false
	}
	return ed25519.Verify(key, signedText(prev, covered[:n]), sig)
}
