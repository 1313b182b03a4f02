//go:build unix

package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ownLike sets the owner of a new file to the owner of the file at path or, if
// there is none, of its directory. It matters when root creates the file: the
// server runs as another user and must be able to open it.
func ownLike(f *os.File, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("give the new file the owner of the store: %w", err)
	}
	return nil
}
