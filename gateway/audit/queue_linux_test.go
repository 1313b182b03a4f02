package audit

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A write that is blocked in the kernel does not block its processor: with one processor, other
// goroutines run and the garbage collector too.
func TestAWriteThatWaitsHoldsNoProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	// A file that is not in the runtime's poller: the write blocks in the kernel, as on a disk.
	r, w := os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "writer")
	defer r.Close()
	defer w.Close()
	full := make([]byte, 1<<20)
	var waits atomic.Bool
	c := testConfig(t)
	c.WriteTimeout = 50 * time.Millisecond
	l, err := Open(c, Options{OpenFile: func(name string, flag int, perm os.FileMode) (File, error) {
		f, err := os.OpenFile(name, flag, perm)
		return pipedFile{f, w, full, &waits}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	waits.Store(true)
	if err := l.Write(context.Background(), sample(1)); !errors.Is(err, errPending) {
		t.Errorf("got %v", err)
	}
	began := time.Now()
	runtime.GC()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a collection took %v", took)
	}
	waits.Store(false)
	buf := make([]byte, 1<<20)
	for rest := len(full); rest > 0; {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		rest -= n
	}
	for l.Ready() != nil { // the write has ended, or is about to
		runtime.Gosched()
	}
	mustClose(t, l)
}

// pipedFile blocks each write until a pipe is read.
type pipedFile struct {
	*os.File
	pipe  *os.File
	full  []byte
	waits *atomic.Bool
}

func (f pipedFile) Write(b []byte) (int, error) {
	if f.waits.Load() {
		if _, err := f.pipe.Write(f.full); err != nil {
			return 0, err
		}
	}
	return f.File.Write(b)
}
