package audit

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The kernel does the work: a fallback to fsync would hide a syncer that does not work.
func TestKernelTakesIt(t *testing.T) {
	var s syncer
	defer s.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		if err := s.Sync(f); err != nil {
			t.Fatal(err)
		}
		if s.state != usable {
			t.Fatal("asynchronous I/O is not used")
		}
	}
}

// Without asynchronous I/O, fsync is called.
func TestWithoutAsynchronousIO(t *testing.T) {
	s := syncer{state: unusable}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Sync(f); err != nil {
		t.Error(err)
	}
}

// A failed write-back is an error of the Sync that waited for it, as of fsync, and of no other.
func TestSyncReturnsTheErrorOfTheKernel(t *testing.T) {
	fails := true
	s := syncer{getEvent: func(ring uintptr, end *syncOutcome) bool {
		ok := getEvent(ring, end)
		if fails {
			end.result = -int64(syscall.EIO)
		}
		return ok
	}}
	defer s.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var path *os.PathError
	if err := s.Sync(f); !errors.Is(err, syscall.EIO) || !errors.As(err, &path) || path.Path != f.Name() {
		t.Errorf("got %v, want EIO of %s", err, f.Name())
	}
	fails = false
	if err := s.Sync(f); err != nil || s.state != usable {
		t.Errorf("the next one: %v, state %d", err, s.state)
	}
}
