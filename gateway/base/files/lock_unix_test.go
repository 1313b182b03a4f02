//go:build unix

package files

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// Closing a lock releases it at once, also while a copy of the open file exists, which a program
// that is being started has until it runs.
func TestAClosedLockIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	lock, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a held lock: %v", err)
	}
	inherited, err := syscall.Dup(int(lock.(heldLock).file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	again, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
