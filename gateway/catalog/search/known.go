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

// known contains the hashes of the definitions of one upstream, by name,
// including tools that are no longer listed.
type known map[string][sha256.Size]byte

// knownFile is the form on disk, so that a change while the gateway was stopped
// is detected too: hashes in hex by upstream and tool.
type knownFile struct {
	Version   int                          `json:"version"`
	Upstreams map[string]map[string]string `json:"upstreams"`
}

// readKnown reads the hashes of all upstreams. A missing file contains none.
func readKnown(path string) (map[string]known, error) {
	var file knownFile
	if found, err := files.ReadJSON(path, maxKnownFile, &file, &file.Version, knownVersion); !found {
		return nil, err
	}
	all := make(map[string]known, len(file.Upstreams))
	for upstream, tools := range file.Upstreams {
		k := make(known, len(tools))
		for name, text := range tools {
			var hash [sha256.Size]byte
			if n, err := hex.Decode(hash[:], []byte(text)); err != nil || n != len(hash) || len(text) != 2*len(hash) {
				return nil, fmt.Errorf("%s: the hash of %q of upstream %q is invalid", path, name, upstream)
			}
			k[name] = hash
		}
		all[upstream] = k
	}
	return all, nil
}

// writeKnown replaces the file, creating its directory if it is missing.
func writeKnown(path string, all map[string]known) error {
	file := knownFile{Version: knownVersion, Upstreams: make(map[string]map[string]string, len(all))}
	for upstream, k := range all {
		tools := make(map[string]string, len(k))
		for name, hash := range k {
			tools[name] = hex.EncodeToString(hash[:])
		}
		file.Upstreams[upstream] = tools
	}
	data, err := json.Marshal(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.Replace(path, append(data, '\n'))
}
