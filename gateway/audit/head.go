package audit

import (
	"crypto/ed25519"
)

// Head returns the current file and the chain head as this process has written it,
// whatever the file contains now. The head is zero before the first line; without a chain
// its hash is zero. oldest is the number of the oldest line that the files of the log have.
func (l *Log) Head() (path string, head Head, oldest uint64, err error) {
	err = l.submit(item{do: func() error {
		path, head, oldest = l.writer.cfg.Path, Head{Seq: l.writer.chain.seq}, l.writer.oldest
		if l.writer.chain.hashed {
			head.Hash = l.writer.chain.prev
		}
		return nil
	}})
	return path, head, oldest, err
}

// Sign signs a text with the checkpoint key. public is nil when no key
// is configured. A text begins with a line that names its kind, which separates it from
// the signed text of checkpoints.
func (l *Log) Sign(text []byte) (public ed25519.PublicKey, signature []byte, err error) {
	err = l.submit(item{do: func() error {
		if s := l.writer.signer; s != nil {
			public, _ = s.key.Public().(ed25519.PublicKey)
			signature = ed25519.Sign(s.key, text)
		}
		return nil
	}})
	return public, signature, err
}
