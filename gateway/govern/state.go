package govern

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"svc/gateway/statefile"
	"svc/server/api"
)

// StateFile is the name of the last good bundle in the state directory.
const StateFile = "governance.json"

const (
	stateVersion = 1
	// maxState bounds the file of the last good bundle in bytes.
	maxState = 64 << 20
)

// state is the last good bundle as it is kept on disk. It holds the tenant's
// hash key, so the file is for its owner alone.
type state struct {
	Version int `json:"version"`
	// Origin is the control plane that the bundle came from.
	Origin  string          `json:"origin"`
	ETag    string          `json:"etag"`
	Fetched time.Time       `json:"fetched"`
	Bundle  *api.Governance `json:"bundle"`
}

// loadState reads a saved bundle. A file that is not there is no error and gives
// nil.
func loadState(path string) (*state, error) {
	b, err := statefile.Read(path, maxState)
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
		return nil, fmt.Errorf("it has version %d, want %d", s.Version, stateVersion)
	}
	return &s, nil
}

// saveState replaces the saved bundle.
func saveState(path string, s *state) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return statefile.Replace(path, append(b, '\n'))
}
