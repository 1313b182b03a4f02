package audit

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// frozenDisk blocks writes, as a frozen file system does.
type frozenDisk struct {
	frozen atomic.Pointer[chan struct{}]
	writes atomic.Int64
}

func (d *frozenDisk) open(name string, flag int, perm os.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	return frozenFile{f, d}, err
}

func (d *frozenDisk) freeze() {
	c := make(chan struct{})
	d.frozen.Store(&c)
}

func (d *frozenDisk) thaw() { close(*d.frozen.Swap(nil)) }

type frozenFile struct {
	*os.File
	d *frozenDisk
}

func (f frozenFile) Write(b []byte) (int, error) {
	f.d.writes.Add(1)
	if c := f.d.frozen.Load(); c != nil {
		<-*c
	}
	return f.File.Write(b)
}

// openFrozen opens a log on a disk that can freeze, in a bubble of fake time.
func openFrozen(t *testing.T, onError string) (*frozenDisk, *Log) {
	t.Helper()
	d := &frozenDisk{}
	c := testConfig(t)
	c.OnWriteError = onError
	l, err := Open(c, Options{OpenFile: d.open})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // so that the work of the start is finished
	return d, l
}

// A caller waits for the disk for write_timeout. Later lines are refused at once, until the disk
// has accepted the line.
func TestAFrozenDiskHoldsUpWritersForWriteTimeoutOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openFrozen(t, onErrorRefuse)
		d.freeze()
		began := time.Now()
		errs := make(chan error)
		for i := range 8 {
			go func() { errs <- l.Write(context.Background(), sample(i)) }()
		}
		for range 8 {
			if err := <-errs; !errors.Is(err, errPending) {
				t.Errorf("on a frozen disk: %v", err)
			}
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("they waited %v", waited)
		}
		if err := l.Ready(); !errors.Is(err, errPending) {
			t.Errorf("ready on a frozen disk: %v", err)
		}
		if err := l.Write(context.Background(), sample(9)); !errors.Is(err, errPending) {
			t.Errorf("behind a pending write: %v", err)
		}
		if err := l.Reopen(); !errors.Is(err, errPending) {
			t.Errorf("a function behind a pending write: %v", err)
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("those after waited until %v", waited)
		}
		d.thaw()
		synctest.Wait()
		if err := l.Ready(); err != nil {
			t.Errorf("after the thaw: %v", err)
		}
		write(t, l, 10)
		path := l.writer.cfg.Path
		mustClose(t, l)
		// start, the line that was being written, recovered, 10, stop. No other refused line is
		// in the file, and the late lines are reported.
		v := checkChain(t, path, VerifyOptions{})
		late := int64(v.Lines) - 4
		if late < 1 || late > 8 || v.Late != uint64(late) || v.Lost != 0 {
			t.Errorf("%d lines, %d late, %d lost", v.Lines, v.Late, v.Lost)
		}
	})
}

// With on_write_error: count lines pass after write_timeout, and lines that come while the write
// is pending pass at once. Each is counted once: as lost, or as late if the disk accepted it
// after all.
func TestAFrozenDiskLetsCountedLinesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openFrozen(t, onErrorCount)
		d.freeze()
		began := time.Now()
		for i := range 5 {
			if err := l.Write(context.Background(), sample(i)); err != nil {
				t.Errorf("line %d: %v", i, err)
			}
			if waited := time.Since(began); waited != 2*time.Second {
				t.Errorf("line %d waited until %v", i, waited)
			}
		}
		if err := l.Ready(); err != nil {
			t.Errorf("requests would be refused: %v", err)
		}
		if l.Lost() != 5 {
			t.Errorf("%d lines were counted, want 5", l.Lost())
		}
		d.thaw()
		synctest.Wait()
		write(t, l, 6)
		path := l.writer.cfg.Path
		mustClose(t, l)
		if v := checkChain(t, path, VerifyOptions{}); v.Lost != 4 || v.Late != 1 {
			t.Errorf("the log reports %d lost and %d late lines, want 4 and 1", v.Lost, v.Late)
		}
	})
}

// A write that fails after its caller gave up leaves a lost line, not a late one.
func TestALateWriteThatFailsIsALostLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openFrozen(t, onErrorCount)
		d.freeze()
		if err := l.Write(context.Background(), sample(1)); err != nil {
			t.Fatal(err)
		}
		l.writer.f.(frozenFile).Close() // the pending write will fail
		d.thaw()
		synctest.Wait()
		if l.Lost() != 1 {
			t.Errorf("%d lines were counted, want 1", l.Lost())
		}
		l.queue.mu.Lock()
		lost, late := l.writer.lost, l.writer.late
		l.queue.mu.Unlock()
		if lost != 1 || late != 0 {
			t.Errorf("%d lost, %d late", lost, late)
		}
		_ = l.Close()
	})
}

// callerOf counts the calls of WriteOverdue.
type callerOf struct{ answered atomic.Int64 }

func (c *callerOf) WriteOverdue() { c.answered.Add(1) }

// A request whose own goroutine is blocked in the write is answered by WriteOverdue, once, and
// its goroutine continues when the disk does.
func TestACallerThatWritesIsAnsweredWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openFrozen(t, onErrorRefuse)
		d.freeze()
		began := time.Now()
		var first, second callerOf
		done := make(chan error)
		go func() { done <- l.WriteFor(&first, sample(1)) }()
		synctest.Wait()
		if err := l.WriteFor(&second, sample(2)); !errors.Is(err, errPending) { // queued after it
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("it was given up after %v", waited)
		}
		synctest.Wait()
		if first.answered.Load() != 1 || second.answered.Load() != 0 {
			t.Errorf("%d and %d calls of WriteOverdue", first.answered.Load(), second.answered.Load())
		}
		select {
		case err := <-done:
			t.Errorf("it left the write: %v", err)
		default:
		}
		d.thaw()
		if err := <-done; !errors.Is(err, errPending) {
			t.Errorf("after the thaw: %v", err)
		}
		if err := l.WriteFor(&first, sample(3)); err != nil || first.answered.Load() != 1 {
			t.Errorf("after the thaw: %v", err)
		}
		path := l.writer.cfg.Path
		mustClose(t, l)
		if v := checkChain(t, path, VerifyOptions{}); v.Late != 1 || v.Lines != 5 {
			t.Errorf("%d lines, %d late", v.Lines, v.Late)
		}
	})
}

// Concurrent requests share a write. If the disk blocks, the request whose goroutine writes is
// answered by WriteOverdue, and the others by their own goroutines.
func TestLinesOfRequestsThatRunTogetherShareAWrite(t *testing.T) {
	// With one processor all goroutines have queued their lines before the first one writes.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const requests = 16
	synctest.Test(t, func(t *testing.T) {
		d, l := openFrozen(t, onErrorRefuse)
		callers := make([]callerOf, requests)
		all := func() chan error {
			errs := make(chan error, requests)
			for i := range callers {
				go func() { errs <- l.WriteFor(&callers[i], sample(i)) }()
			}
			synctest.Wait()
			return errs
		}
		before := d.writes.Load()
		errs := all()
		for range callers {
			if err := <-errs; err != nil {
				t.Errorf("not written: %v", err)
			}
		}
		if n := d.writes.Load() - before; n > requests/4 {
			t.Errorf("%d lines took %d writes", requests, n)
		}

		d.freeze()
		errs = all()
		if err := l.Write(context.Background(), sample(requests)); !errors.Is(err, errPending) { // after write_timeout
			t.Errorf("behind a pending write: %v", err)
		}
		synctest.Wait()
		answered := int64(0)
		for i := range callers {
			answered += callers[i].answered.Load()
		}
		if answered != 1 || len(errs) != requests-1 {
			t.Errorf("%d requests were answered by WriteOverdue and %d by themselves", answered, len(errs))
		}
		d.thaw()
		for range callers {
			if err := <-errs; !errors.Is(err, errPending) {
				t.Errorf("after the thaw: %v", err)
			}
		}
		path := l.writer.cfg.Path
		mustClose(t, l)
		if v := checkChain(t, path, VerifyOptions{}); v.Late == 0 || v.Lost != 0 {
			t.Errorf("%d late, %d lost", v.Late, v.Lost)
		}
	})
}

// A log whose disk is blocked can be closed.
func TestCloseDoesNotWaitForAFrozenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openFrozen(t, onErrorRefuse)
		d.freeze()
		began := time.Now()
		if err := l.Close(); !errors.Is(err, errPending) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("it took %v", waited)
		}
		d.thaw()
	})
}
