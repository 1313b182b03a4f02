package bolt

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"

	"svc/store"
)

// growStep is the number of bytes by which the file must be able to grow before the store
// counts as writable again. bbolt enlarges its file in steps of the same size by default.
const growStep = 16 << 20

// diskFailed reports whether an error of a commit means that the disk takes no more data at
// present: it is full, over its quota, read-only or failing.
func diskFailed(err error) bool {
	for _, no := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS} {
		if errors.Is(err, no) {
			return true
		}
	}
	// bbolt does not wrap the cause when it cannot enlarge the file.
	return strings.HasPrefix(err.Error(), "file resize error: ") || strings.HasPrefix(err.Error(), "file sync error: ")
}

// diskState returns the error of the store for a failure of its disk: [store.ErrDiskFull] or
// [store.ErrUnavailable].
func diskState(err error) error {
	// bbolt does not wrap the cause when it cannot enlarge the file.
	for _, no := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, no) || strings.HasSuffix(err.Error(), no.Error()) {
			return store.ErrDiskFull
		}
	}
	return store.ErrUnavailable
}

// growAgain enlarges the file by growStep after a commit failed because of the disk. A small
// write is no proof that the disk has space, because it uses pages that the file already has.
// On success the store counts as writable, and the new bytes are used by later commits.
func (s *Store) growAgain(tx *bbolt.Tx) error {
	if s.diskFailure.Load() == nil {
		return nil
	}
	err := extend(s.path, tx.Size())
	if err != nil {
		err = fmt.Errorf("%w: the file cannot grow by %d MiB; free space on its disk: %w", diskState(err), growStep>>20, err)
		s.diskFailure.Store(&err)
		return err
	}
	s.diskFailure.Store(nil)
	return nil
}

// extend writes growStep bytes behind the used part of a file, and removes them when that
// fails, so that other programs and small commits do not lack the rest of the disk. The caller
// is in a write transaction: nothing else writes to the file, and nobody reads behind the used
// part.
func extend(path string, used int64) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	defer func() {
		if err != nil {
			_ = f.Truncate(used) // the error that is returned already says what is wrong with the disk
		}
	}()
	zeros := make([]byte, 1<<20)
	for at := used; at < used+growStep; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	return f.Sync()
}
