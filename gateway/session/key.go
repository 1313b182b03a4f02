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

	"svc/gateway/base/files"
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
		if abs, e := filepath.Abs(stateDir); e == nil {
			stateDir = abs // a relative path, as the default, does not say where the gateway was started
		}
		return nil, fmt.Errorf("the directory for state %s cannot be made; set state_dir, or audit.path whose folder has it by default, to an absolute path that the gateway can write: %w", stateDir, err)
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

// LoadPrevious returns earlier keys, in the order of their files.
func LoadPrevious(files []string) (keys [][]byte, err error) {
	for i, path := range files {
		key, err := readSessionKey(path)
		if err != nil {
			return nil, fmt.Errorf("sessions.previous_key_files[%d]: %w", i, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
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
		return nil, fmt.Errorf("%s contains %d bytes, want the base64 of %d bytes", path, info.Size(), keySize)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s does not contain the base64 of %d bytes; create it with: head -c 32 /dev/urandom | base64", path, keySize)
	}
	return key, nil
}

// makeSessionKey writes a new key. The file is created atomically, so two
// gateways that start concurrently use the same key.
func makeSessionKey(path string) ([]byte, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	err := files.Create(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return readSessionKey(path)
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}
