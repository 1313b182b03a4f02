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

// Bounds on what is kept between runs.
const (
	maxState = 64 << 20
	// maxOpen is how many streams that have not ended are remembered. Of one
	// beyond it only the trace of a crash is lost, not that of its end.
	maxOpen = 10_000
)

// stateVersion is the form of the state file.
const stateVersion = 1

// state is what survives a restart: where to read on, and the streams that were
// open there.
type state struct {
	Version  int              `json:"version"`
	Path     string           `json:"path"`
	Position audit.Position   `json:"position"`
	Open     []api.TraceInput `json:"open,omitempty"`
}

// stateName is the state file of an audit file: each has its own, so that
// nothing is mixed up when audit.path changes and changes back.
func stateName(dir, auditPath string) (string, error) {
	trail, err := audit.TrailName(auditPath)
	return filepath.Join(dir, "report-"+trail+".json"), err
}

// loadState reads a state file. An absent one is an empty state; one that
// cannot be understood is an error beside an empty state.
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
		return state{}, errors.New("has something behind its end")
	}
	switch {
	case s.Version != stateVersion:
		return state{}, fmt.Errorf("has version %d, not %d", s.Version, stateVersion)
	case s.Position.Offset < 0 || s.Position.File > s.Position.Seq && s.Position.Seq > 0:
		return state{}, errors.New("names a position that cannot be")
	case len(s.Open) > maxOpen:
		return state{}, fmt.Errorf("names more than %d open streams", maxOpen)
	}
	return s, nil
}

// saveState replaces a state file, and leaves its directory to the kernel: it is
// written often, and behind an old one traces are only sent again.
func saveState(name string, s state, sync func(*os.File) error) error {
	s.Version = stateVersion
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return statefile.ReplaceWith(name, b, sync)
}
