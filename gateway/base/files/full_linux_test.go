package files

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A disk that is full in the middle of a write leaves the old file. A limit on
// file sizes simulates it: the system call fails in the same way.
func TestDiskFull(t *testing.T) {
	if os.Getenv("SVC_TEST_ALONE") == "" { // the limit would also hold for the log that go test writes
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "SVC_TEST_ALONE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	replaced := Replace(path, bytes.Repeat([]byte("x"), 5000))
	created := Create(filepath.Join(dir, "other"), bytes.Repeat([]byte("x"), 5000))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(replaced, syscall.EFBIG) || !errors.Is(created, syscall.EFBIG) {
		t.Errorf("Replace: %v, Create: %v; want EFBIG", replaced, created)
	}
	holds(t, path, "old")
}

// A named pipe without a writer does not block the start.
func TestReadOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := Read(path, 10); done <- err }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a pipe was read")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a writer")
	}
}

// The limit also applies to files whose size is unknown before they are read.
func TestReadOfWhatHasNoSize(t *testing.T) {
	if data, err := Read("/proc/self/status", 10); err == nil || data != nil {
		t.Errorf("%q, %v; want it refused", data, err)
	}
}
