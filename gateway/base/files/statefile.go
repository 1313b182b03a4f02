package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// suffix is the suffix of the name of a file that is being written.
	suffix = ".new"
	// abandoned is the age at which such a file is removed, because its writer
	// must have been killed.
	abandoned = time.Hour
)

// Read returns the content of a file of at most max bytes. The error for a
// missing file is [io/fs.ErrNotExist]; a larger file, and anything that is not a
// regular file, is refused without being read. A symbolic link is followed.
func Read(path string, max int) ([]byte, error) {
	data, _, err := readRegular(path, max)
	if unusable := new(unusableError); errors.As(err, &unusable) {
		return nil, fmt.Errorf("%s %w: remove it", path, err)
	}
	return data, err
}

// unusableError is the reason why a file that can be opened is not read.
type unusableError struct{ reason string }

func (e *unusableError) Error() string { return e.reason }

func unusablef(format string, args ...any) error {
	return &unusableError{fmt.Sprintf(format, args...)}
}

// readRegular reads a regular file of at most max bytes. Nothing else is opened, because opening a
// device can act on it; if a pipe replaces the file in between, opening it does not block.
func readRegular(path string, max int) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, unusablef("is not a regular file")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, nil, unusablef("is not a regular file")
	case info.Size() > int64(max):
		return nil, nil, unusablef("has more than %d bytes (%d)", max, info.Size())
	}
	// Do not rely on the size from before: the file may grow.
	data, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(data) > max:
		return nil, nil, unusablef("has more than %d bytes", max)
	}
	return data, info, nil
}

// ReadJSON decodes a file of at most max bytes into what into refers to; found is false, without an
// error, if there is none. version refers to the member of into that names the version of the file,
// which must be want.
func ReadJSON(path string, max int, into any, version *int, want int) (found bool, err error) {
	data, err := Read(path, max)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if *version != want {
		return false, fmt.Errorf("%s has version %d, want %d", path, *version, want)
	}
	return true, nil
}

// Replace atomically writes a file, replacing the one at path, if any. When it
// returns nil the new content survives a power failure; when it fails the old
// file is unchanged, except if syncing the directory failed. A symbolic link at
// path is replaced, and its target is not touched. Of several concurrent writers
// the last one wins.
func Replace(path string, data []byte) error {
	if err := ReplaceWith(path, data, (*os.File).Sync); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// ReplaceWith is Replace for frequent writes: sync syncs the new file, and the
// directory is not synced. After a power failure the file at path is the old one
// or the new one.
func ReplaceWith(path string, data []byte, sync func(*os.File) error) error {
	name, err := write(path, data, sync)
	if err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// Create writes a file that must not exist yet. If it exists, or another writer
// was first, the error is [io/fs.ErrExist] and that file is unchanged.
func Create(path string, data []byte) error {
	name, err := write(path, data, (*os.File).Sync)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Link(name, path), os.Remove(name)); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// write writes a new file beside path and returns its name.
func write(path string, data []byte, sync func(*os.File) error) (string, error) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	sweep(dir, base)
	f, err := os.CreateTemp(dir, "."+base+".*"+suffix)
	if err != nil {
		return "", err
	}
	if _, err = f.Write(data); err == nil {
		err = errors.Join(f.Chmod(0o600), sync(f)) // independent of the umask
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// sweep removes temporary files of writers that were killed. Errors are ignored:
// such files do no harm.
func sweep(dir, base string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), "."+base+".")
		number, unfinished := strings.CutSuffix(rest, suffix)
		if !ours || !unfinished || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// syncDirectory syncs a directory, so that file names survive a power failure. On
// systems that cannot sync directories, such as Windows and some network file
// systems, it does nothing.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
