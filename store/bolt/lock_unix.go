//go:build unix

package bolt

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile takes the same lock as bbolt, exclusive for writing or shared for
// reading, waiting at most d.
func lockFile(f *os.File, write bool, d time.Duration) error {
	how := unix.LOCK_SH
	if write {
		how = unix.LOCK_EX
	}
	return waitFor(d, func() (bool, error) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	})
}

func unlockFile(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
