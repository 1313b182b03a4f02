//go:build unix

package grant

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock locks a file where nobody else holds it. The lock ends with the file.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// giveAway gives a file that root has made to the owner of its folder.
func giveAway(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if owner, ok := dir.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}
	return nil
}
