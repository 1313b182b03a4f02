package auth

import (
	"os"
	"path/filepath"
)

// Files are the paths of the files that [Init] wrote.
type Files struct {
	Key       string `json:"key"`
	PublicKey string `json:"publicKey"`
	License   string `json:"license"`
}

// Init creates a key pair as [GenerateKey] does, and a license beside it that is signed with the
// pair. It sets KeyFile and Out of the request. It replaces no file: if one of the three exists,
// the error is ErrExists and nothing is written.
func Init(dir string, r Request) (*License, Files, error) {
	if err := r.validate(); err != nil {
		return nil, Files{}, err
	}
	r.Out = filepath.Join(dir, FileName)
	if _, err := os.Lstat(r.Out); err == nil {
		return nil, Files{}, &Error{Kind: ErrExists, What: whatLicense, Path: r.Out}
	}
	key, public, err := GenerateKey(dir)
	if err != nil {
		return nil, Files{}, err
	}
	r.KeyFile = key
	l, err := Issue(r)
	if err != nil {
		// No license was signed with this pair, and it would block the next attempt.
		_, _ = os.Remove(key), os.Remove(public)
		return nil, Files{}, err
	}
	return l, Files{Key: key, PublicKey: public, License: r.Out}, nil
}
