// Package statefile keeps small private files, such as what a program has to know
// again at its next start. A file is written whole: whoever reads it, also after
// a crash, finds the old content or the new one and never a part of it. It has
// mode 0600, for some hold secrets.
//
// What the content means, and what to do when it is missing or damaged, is its
// owner's affair. So is the directory: it has to be there, and nobody else may
// write to it.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// suffix ends the name of a file that is being written.
	suffix = ".new"
	// abandoned is the age at which a file that is being written is removed: its
	// writer was killed.
	abandoned = time.Hour
)

// Read returns the content of a file of at most max bytes. The error of one that
// is not there is [io/fs.ErrNotExist]; a file that is larger, or that is none, is
// refused without being read. A symbolic link is followed.
func Read(path string, max int) ([]byte, error) {
	// Without O_NONBLOCK the opening of a pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: remove it", path)
	}
	var data []byte
	if info.Size() <= int64(max) {
		// Not the size of before: the file may grow.
		if data, err = io.ReadAll(io.LimitReader(f, int64(max)+1)); err != nil {
			return nil, err
		}
	}
	if info.Size() > int64(max) || len(data) > max {
		return nil, fmt.Errorf("%s holds more than %d bytes: remove it", path, max)
	}
	return data, nil
}

// Replace writes a file in place of the one at path, if there is one. When it
// returns nil the new content survives a power cut; when it fails the old file
// stands, unless it was the directory that could not be brought to the disk. A
// symbolic link at path is replaced, and what it leads to is left alone. Of
// several writers at once the last one's file stands.
func Replace(path string, data []byte) error {
	if err := ReplaceWith(path, data, (*os.File).Sync); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// ReplaceWith is Replace for those who write often: sync brings the new file to
// the disk, and the directory is left to the kernel. After a power cut the file
// at path is the old one or the new one.
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

// Create writes a file that must not be there yet. When something is there, or
// another writer was first, the error is [io/fs.ErrExist] and that file stands.
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
		err = errors.Join(f.Chmod(0o600), sync(f)) // whatever the umask
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// sweep removes what writers of a file left behind that were killed. It is no
// error when it cannot: what is left is in nobody's way.
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

// syncDirectory makes names last. Where directories cannot be brought to the
// disk, as on Windows and on some network file systems, it is left to the kernel.
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
