package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"svc/gateway/base/files"
	"svc/store/api"
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

// savedState is saved across restarts: the reading position, and the open streams there.
type savedState struct {
	Version  int         `json:"version"`
	Path     string      `json:"path"`
	Position Position    `json:"position"`
	Open     []savedOpen `json:"open,omitempty"`
	// Store is what is known about the store of the control plane.
	Store *storeSeen `json:"store,omitempty"`
}

// savedOpen is an open stream, and the position before its opening line.
type savedOpen struct {
	From  Position       `json:"from"`
	Trace api.TraceInput `json:"trace"`
}

// stateName returns the state file of an audit file. Each audit file has its own, so that
// changing audit.path and changing it back works.
func stateName(dir, auditPath string) (string, error) {
	trail, err := trailName(auditPath)
	return filepath.Join(dir, "report-"+trail+".json"), err
}

// loadState reads a state file. An absent file gives an empty state; an invalid one gives
// an error and an empty state.
func loadState(name string) (savedState, error) {
	b, err := files.Read(name, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return savedState{}, nil
	}
	if err != nil {
		return savedState{}, err
	}
	return parseState(b)
}

func parseState(b []byte) (savedState, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var s savedState
	if err := d.Decode(&s); err != nil {
		return savedState{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return savedState{}, errors.New("has data after its end; delete the file to start over")
	}
	switch {
	case s.Version != stateVersion:
		return savedState{}, fmt.Errorf("has version %d, not %d", s.Version, stateVersion)
	case s.Position.Offset < 0 || s.Position.File > s.Position.Seq+1 && s.Position.Seq > 0:
		return savedState{}, errors.New("has a position out of range; delete the file to start over")
	case s.Store != nil && len(s.Store.Marks) > maxMarks:
		return savedState{}, fmt.Errorf("has more than %d marks", maxMarks)
	case len(s.Open) > maxOpen:
		return savedState{}, fmt.Errorf("has more than %d open streams", maxOpen)
	}
	return s, nil
}

// saveState replaces a state file without syncing its directory: it is written often, and
// an old state only causes traces to be sent again.
func saveState(name string, s savedState, sync func(*os.File) error) error {
	s.Version = stateVersion
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return files.ReplaceWith(name, b, sync)
}
