package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// tryBytes is more than a file system keeps beside the name of a file.
const tryBytes = 4 << 10

// TryWrite writes a file of 4 KiB in a directory and removes it. The error is that of the first
// step that failed.
func TryWrite(dir string) error {
	file, err := os.CreateTemp(dir, ".svc-check-*")
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, tryBytes))
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}

// ExistingParent returns the nearest directory above a path that exists, or that cannot be looked
// at.
func ExistingParent(path string) string {
	for {
		path = filepath.Dir(path)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return path
		}
	}
}
