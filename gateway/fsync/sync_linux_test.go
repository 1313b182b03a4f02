package fsync

import (
	"os"
	"path/filepath"
	"testing"
)

// The kernel does it: no fsync of our own hides a Syncer that does not work.
func TestKernelTakesIt(t *testing.T) {
	var s Syncer
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

// Without it fsync is called.
func TestWithoutAsynchronousIO(t *testing.T) {
	s := Syncer{state: unusable}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Sync(f); err != nil {
		t.Error(err)
	}
}
