//go:build linux && !race

package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What is written in either way is what stands in the file, in order; a slow
// write, a large one and another file system take the ordinary way.
func TestQuickWrites(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "trail"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	q := newQuick(f)
	q.local = true
	var want []byte
	for i, size := range []int{1, 300, quickSize, quickSize + 1, 0, 7} {
		if i == 3 {
			q.until = time.Now().Add(time.Hour)
		}
		piece := bytes.Repeat([]byte{byte('a' + i)}, size)
		want = append(want, piece...)
		if n, err := q.write(f, piece); n != size || err != nil {
			t.Fatalf("%d bytes: %d, %v", size, n, err)
		}
	}
	got, err := os.ReadFile(f.Name())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes in the file, want %d: %v", len(got), len(want), err)
	}
}

func TestQuickWriteThatFails(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full")
	}
	defer f.Close()
	if q := newQuick(f); q.local {
		t.Error("a device counts as a file of a local disk")
	}
	q := &quick{local: true}
	if n, err := q.write(f, []byte("line\n")); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%d, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.write(f, []byte("line\n")); err == nil {
		t.Error("a closed file was written to")
	}
}

// Slow writes take a hundredth of the time at most, however slow they are.
func TestPauseAfterASlowWrite(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		100 * time.Microsecond: 0, time.Millisecond: 0, 2 * time.Millisecond: 200 * time.Millisecond, 100 * time.Millisecond: 10 * time.Second, time.Hour: time.Minute,
	} {
		if got := pauseAfter(d); got != want {
			t.Errorf("after %v: %v, want %v", d, got, want)
		}
	}
}

// A write that lasted long sends the next ones the ordinary way.
func TestSlowWriteEndsQuickWrites(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	q := &quick{local: true}
	go func() {
		time.Sleep(20 * time.Millisecond)
		buf := make([]byte, 1<<20)
		for {
			if _, err := r.Read(buf); err != nil {
				return
			}
		}
	}()
	for range 4 { // more than a pipe holds
		if _, err := q.write(w, make([]byte, quickSize)); err != nil {
			t.Fatal(err)
		}
	}
	if !q.until.After(time.Now()) {
		t.Error("it would go on without telling the scheduler")
	}
}
