//go:build unix

package files

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock locks a file if no other process has locked it.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// unlock releases the lock of a file.
func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// GiveAway changes the owner of a file that root has created to that of its folder, which is the
// gateway's user if the folder is its state_dir.
func GiveAway(path string) error {
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
