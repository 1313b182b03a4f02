package bolt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Restore writes a backup to path, where no file may exist (fs.ErrExist). The
// copy is checked before it gets that name: what is no whole store is refused with
// a [*FileError] and leaves nothing behind.
func Restore(r io.Reader, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("restore store %s: %w; move that file away first", path, os.ErrExist)
	}
	tmp := path + ".restore"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("restore store: %w", err)
	}
	defer os.Remove(tmp)
	_, err = io.Copy(f, bufio.NewReaderSize(r, 1<<20))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("restore store %s: %w", path, err)
	}
	if err := Check(context.Background(), tmp); err != nil {
		return err
	}
	if err := os.Link(tmp, path); err != nil {
		return fmt.Errorf("restore store %s: %w", path, err)
	}
	return syncDir(path)
}
