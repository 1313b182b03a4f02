package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"svc/gateway/audit"
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
	trail, err := trailName(auditPath)
	return filepath.Join(dir, "report-"+trail+".json"), err
}

// trailName names an audit file without telling where it stands.
func trailName(auditPath string) (string, error) {
	abs, err := filepath.Abs(auditPath)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return hex.EncodeToString(sum[:4]), nil
}

// loadState reads a state file. An absent one is an empty state; one that
// cannot be understood is an error beside an empty state.
func loadState(name string) (state, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return state{}, err
	}
	return parseState(b)
}

func parseState(b []byte) (state, error) {
	if len(b) > maxState {
		return state{}, fmt.Errorf("is over %d bytes", maxState)
	}
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

// saveState replaces a state file in one step: after a crash it is the old one
// or the new one.
func saveState(name string, s state, sync func(*os.File) error) error {
	s.Version = stateVersion
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, sync(tmp), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
