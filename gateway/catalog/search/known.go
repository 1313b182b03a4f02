package search

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"svc/gateway/base/files"
)

const (
	knownVersion = 1
	// maxKnownFile bounds the file of hashes in bytes.
	maxKnownFile = 64 << 20
)

// hash is the hash of a definition, in hex on disk.
type hash [sha256.Size]byte

// MarshalText is [encoding.TextMarshaler].
func (h hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText is [encoding.TextUnmarshaler].
func (h *hash) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(h) {
		return fmt.Errorf("%q is no hash of a definition", text)
	}
	*h = hash(raw)
	return nil
}

// known contains the hashes of the definitions of one upstream, by name,
// including tools that are no longer listed.
type known map[string]hash

// knownFile is the form on disk, so that a change while the gateway was stopped
// is detected too.
type knownFile struct {
	Version   int              `json:"version"`
	Upstreams map[string]known `json:"upstreams"`
}

// readKnown reads the hashes of all upstreams. A missing file contains none.
func readKnown(path string) (map[string]known, error) {
	var file knownFile
	if found, err := files.ReadJSON(path, maxKnownFile, &file, &file.Version, knownVersion); !found {
		return nil, err
	}
	return file.Upstreams, nil
}

// writeKnown replaces the file, creating its directory if it is missing.
func writeKnown(path string, all map[string]known) error {
	data, err := json.Marshal(knownFile{Version: knownVersion, Upstreams: all})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.Replace(path, append(data, '\n'))
}
