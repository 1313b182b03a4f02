package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"svc/gateway/audit"
	"svc/gateway/statefile"
	"svc/server/api"
)

// Limits of the saved state.
const (
	maxState = 64 << 20
	// maxOpen is the number of open streams that are tracked. A stream beyond it has no
	// trace if the gateway crashes; the trace of its regular end is not affected.
	maxOpen = 10_000
)

// stateVersion is the version of the state file.
const stateVersion = 1

// state is saved across restarts: the reading position, and the open streams there.
type state struct {
	Version  int              `json:"version"`
	Path     string           `json:"path"`
	Position audit.Position   `json:"position"`
	Open     []api.TraceInput `json:"open,omitempty"`
}

// stateName returns the state file of an audit file. Each audit file has its own, so that
// changing audit.path and changing it back works.
func stateName(dir, auditPath string) (string, error) {
	trail, err := audit.TrailName(auditPath)
	return filepath.Join(dir, "report-"+trail+".json"), err
}

// loadState reads a state file. An absent file gives an empty state; an invalid one gives
// an error and an empty state.
func loadState(name string) (state, error) {
	b, err := statefile.Read(name, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	return parseState(b)
}

func parseState(b []byte) (state, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var s state
	if err := d.Decode(&s); err != nil {
		return state{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return state{}, errors.New("has data after its end; delete the file to start over")
	}
	switch {
	case s.Version != stateVersion:
		return state{}, fmt.Errorf("has version %d, not %d", s.Version, stateVersion)
	case s.Position.Offset < 0 || s.Position.File > s.Position.Seq && s.Position.Seq > 0:
		return state{}, errors.New("has a position out of range; delete the file to start over")
	case len(s.Open) > maxOpen:
		return state{}, fmt.Errorf("has more than %d open streams", maxOpen)
	}
	return s, nil
}

// saveState replaces a state file without syncing its directory: it is written often, and
// an old state only causes traces to be sent again.
func saveState(name string, s state, sync func(*os.File) error) error {
	s.Version = stateVersion
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return statefile.ReplaceWith(name, b, sync)
}
