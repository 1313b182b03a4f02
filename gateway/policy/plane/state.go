package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/files"
	"svc/store/api"
)

// stateFile is the name of the file of the saved bundle in the state directory.
const stateFile = "governance.json"

const (
	stateVersion = 1
	// maxState bounds the size of that file in bytes.
	maxState = 64 << 20
)

// state is the last valid bundle, as saved on disk. It contains the tenant's hash key, so
// that only the owner may read the file.
type state struct {
	Version int `json:"version"`
	// Origin is the addresses of the control plane of the bundle, separated by spaces.
	Origin  string          `json:"origin"`
	ETag    string          `json:"etag"`
	Fetched time.Time       `json:"fetched"`
	Bundle  *api.Governance `json:"bundle"`
}

// loadState reads a saved bundle. An absent file gives nil without an error.
func loadState(path string) (*state, error) {
	b, err := files.Read(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	if s.Version != stateVersion || s.Bundle == nil {
		return nil, fmt.Errorf("the file has version %d, want %d", s.Version, stateVersion)
	}
	return &s, nil
}

// saveState replaces the saved bundle.
func saveState(path string, s *state) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return files.Replace(path, append(b, '\n'))
}

// sameOrigin reports whether the saved addresses and the present ones have one in common:
// an address that is added or removed does not make it another control plane.
func sameOrigin(saved string, origin []string) bool {
	return slices.ContainsFunc(strings.Fields(saved), func(u string) bool { return slices.Contains(origin, u) })
}
