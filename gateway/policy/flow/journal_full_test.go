//go:build unix

package flow

import (
	"bytes"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// full bounds the size of files of the process while do runs.
func full(t *testing.T, size int64, do func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(size), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// When the disk is full in the middle of a line, Set fails for a label that is not in the file, and is logged and
// counted. The lines before stay, and with room again the file is written as before.
func TestTheDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	m := reopened(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	set(t, m, alice, two, "private")
	info, err := os.Stat(m.file.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int64{0, 1, 20} {
		full(t, info.Size()+room, func() {
			if err := m.Set(t.Context(), alice, two.Of("untrusted"), two); err == nil || !strings.Contains(err.Error(), "not in state_dir") {
				t.Errorf("room for %d bytes: %v", room, err)
			}
			set(t, m, alice, two, "private") // it is in the file
		})
		if now, err := os.Stat(m.file.path); err != nil || now.Size() != info.Size() {
			t.Errorf("room for %d bytes: the file has %d bytes, %v", room, now.Size(), err)
		}
	}
	has(t, m, alice, two, "private", "untrusted")
	if got := m.Stats().Unstored; got != 3 || strings.Count(log.String(), "the file cannot be written") != 1 || !strings.Contains(log.String(), m.file.path) {
		t.Errorf("counted %d, logged %q", got, &log)
	}
	set(t, m, alice, two, "untrusted")
	has(t, reopened(t, dir, Options{}), alice, two, "private", "untrusted")
}
