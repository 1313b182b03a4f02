package audit

import (
	"crypto/ed25519"
	"fmt"
)

// Head returns the current file and the chain head as this process has written it,
// whatever the file contains now. The head is zero before the first line; without a chain
// its hash is zero.
func (l *Log) Head() (path string, head Head, err error) {
	err = l.submit(item{do: func() error {
		path, head = l.writer.cfg.Path, Head{Seq: l.writer.chain.seq}
		if l.writer.chain.hashed {
			head.Hash = l.writer.chain.prev
		}
		return nil
	}})
	return path, head, err
}

// Sign signs a text with the checkpoint key (decision AUD40). public is nil when no key
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

// HeadOf returns the chain head of the audit log whose current file is path, also while
// the file is written; the zero Head when the log has no line. Without a chain the Hash
// is zero.
func HeadOf(path string) (Head, error) {
	files, err := trail(path)
	if err != nil || len(files) == 0 {
		return Head{}, err
	}
	newest := files[len(files)-1]
	f, err := newest.open()
	if err != nil {
		return Head{}, fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Head{}, err
	}
	end, err := lastLine(f, info.Size())
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", newest.Path, err)
	}
	return Head{Seq: end.seq, Hash: end.hash}, nil
}
