package audit

import (
	"crypto/ed25519"
	"fmt"
)

// Head returns the file that is written now and the end of its chain as this
// process has written it, whatever the file holds by now. It is zero before the
// first line; without a chain its hash is.
func (l *Log) Head() (path string, head Head, err error) {
	err = l.submit(item{do: func() error {
		path, head = l.leader.cfg.Path, Head{Seq: l.leader.sealer.seq}
		if l.leader.sealer.chain {
			head.Hash = l.leader.sealer.prev
		}
		return nil
	}})
	return path, head, err
}

// Sign signs a text with the checkpoint key. The public half is nil when there is
// none. Texts begin with a line that says what they are; those of checkpoints are
// not signed here.
func (l *Log) Sign(text []byte) (public ed25519.PublicKey, signature []byte, err error) {
	err = l.submit(item{do: func() error {
		if s := l.leader.signer; s != nil {
			public, _ = s.key.Public().(ed25519.PublicKey)
			signature = ed25519.Sign(s.key, text)
		}
		return nil
	}})
	return public, signature, err
}

// HeadOf returns the last whole line of the trail whose current file is path,
// also while it is written; the zero Head when there is none. A trail without a
// chain has a zero Hash.
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
