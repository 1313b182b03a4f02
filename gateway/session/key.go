package session

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"svc/gateway/statefile"
)

// LoadKey returns the key that seals session handles: the shared key in
// keyFile, or this gateway's own key, which is created at the first start and
// saved, because clients do not begin a new session after a restart of the
// gateway.
func LoadKey(keyFile, stateDir string) ([]byte, error) {
	if keyFile != "" {
		key, err := readSessionKey(keyFile)
		if err != nil {
			return nil, fmt.Errorf("sessions.key_file: %w", err)
		}
		return key, nil
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	path := filepath.Join(stateDir, "session.key")
	key, err := readSessionKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeSessionKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("session key: %w", err)
	}
	return key, nil
}

// readSessionKey reads 32 bytes in base64 from a file that must not be readable
// by others.
func readSessionKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s must be a regular file with mode 0600 or stricter, has %s", path, info.Mode())
	}
	if info.Size() > 1024 {
		return nil, fmt.Errorf("%s contains %d bytes, want the base64 of %d bytes", path, info.Size(), KeySize)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("%s does not contain the base64 of %d bytes; create it with: head -c 32 /dev/urandom | base64", path, KeySize)
	}
	return key, nil
}

// makeSessionKey writes a new key. The file is created atomically, so two
// gateways that start concurrently use the same key.
func makeSessionKey(path string) ([]byte, error) {
	key := make([]byte, KeySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	err := statefile.Create(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return readSessionKey(path)
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}
