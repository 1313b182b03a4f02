package audit

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestSync(t *testing.T) {
	var s syncer
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := f.WriteString("line\n"); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(f); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Sync(f); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.Close()
	s.Close()
	if err := s.Sync(f); err != nil {
		t.Errorf("after Close: %v", err)
	}
	f.Close()
	if err := s.Sync(f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed file: %v, want ErrClosed", err)
	}
}

func TestSyncOfAClosedFile(t *testing.T) {
	var s syncer
	defer s.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := s.Sync(f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// A file that cannot be synced is an error, as of fsync.
func TestSyncOfAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var s syncer
	defer s.Close()
	if err := s.Sync(w); err == nil {
		t.Error("a pipe was synced")
	}
}
