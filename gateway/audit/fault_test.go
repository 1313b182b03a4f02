package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// disk makes writes fail: budget is the number of bytes that still fit.
type disk struct {
	budget  atomic.Int64
	limited atomic.Bool
	noSync  atomic.Bool
	skips   atomic.Bool // syncs are skipped, for tests that close often
	noTrunc atomic.Bool
	writes  atomic.Int64
}

func (d *disk) open(name string, flag int, perm os.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

type diskFile struct {
	*os.File
	d *disk
}

func (f *diskFile) Write(b []byte) (int, error) {
	f.d.writes.Add(1)
	if !f.d.limited.Load() {
		return f.File.Write(b)
	}
	fits := min(f.d.budget.Load(), int64(len(b)))
	n, err := f.File.Write(b[:fits])
	f.d.budget.Add(-int64(n))
	if err == nil && n < len(b) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *diskFile) Sync() error {
	if f.d.noSync.Load() {
		return syscall.EIO
	}
	if f.d.skips.Load() {
		return nil
	}
	return f.File.Sync()
}

func (f *diskFile) Truncate(size int64) error {
	if f.d.noTrunc.Load() {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		name := "the unfinished line can be cut off"
		if stuck {
			name = "the unfinished line can be cut off only later"
		}
		t.Run(name, func(t *testing.T) {
			d := &disk{}
			var mu sync.Mutex
			now := time.Now()
			tell := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
			pass := func(by time.Duration) { mu.Lock(); now = now.Add(by); mu.Unlock() }
			c := testConfig(t)
			l := mustOpen(t, c, Options{OpenFile: d.open, Now: tell})
			if err := l.Write(context.Background(), sample(1)); err != nil || l.Ready() != nil {
				t.Fatal(err)
			}
			d.budget.Store(100)
			d.limited.Store(true)
			d.noTrunc.Store(stuck)
			if err := l.Write(context.Background(), sample(2)); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("on a full disk: %v", err)
			}
			if err := l.Ready(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("ready on a full disk: %v", err)
			}
			pass(2 * time.Second)
			if err := l.Ready(); err == nil {
				t.Error("ready after a try on a full disk")
			}
			d.limited.Store(false)
			d.noTrunc.Store(false)
			if l.Ready() == nil {
				t.Error("tried again within a second")
			}
			pass(2 * time.Second)
			if err := l.Ready(); err != nil {
				t.Errorf("after space returned: %v", err)
			}
			if err := l.Write(context.Background(), sample(3)); err != nil {
				t.Errorf("after space returned: %v", err)
			}
			mustClose(t, l)
			// start, 1, recovered, 3, stop: no gap, and no part of 2.
			if v := checkChain(t, c.Path, VerifyOptions{}); v.Lines != 5 || v.Head.Seq != 5 {
				t.Errorf("%d lines to %d", v.Lines, v.Head.Seq)
			}
			if l.Lost() != 0 {
				t.Errorf("%d lost", l.Lost())
			}
		})
	}
}

func TestFullDiskCountsWhereConfigured(t *testing.T) {
	d := &disk{}
	c := testConfig(t)
	c.OnWriteError = onErrorCount
	l := mustOpen(t, c, Options{OpenFile: d.open})
	d.limited.Store(true)
	for i := range 3 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
		if err := l.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	if l.Lost() != 3 {
		t.Errorf("%d lost, want 3", l.Lost())
	}
	d.limited.Store(false)
	if err := l.Write(context.Background(), sample(9)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Lost != 3 || v.Lines != 4 {
		t.Errorf("the log reports %d lost in %d lines", v.Lost, v.Lines)
	}
}

func TestFailedWriteFailsAllWhoSharedIt(t *testing.T) {
	d := &disk{}
	c := testConfig(t)
	l := mustOpen(t, c, Options{OpenFile: d.open})
	d.limited.Store(true)
	d.budget.Store(2500)
	var good atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if l.Write(context.Background(), sample(i)) == nil {
				good.Add(1)
			}
		})
	}
	wg.Wait()
	d.limited.Store(false)
	mustClose(t, l)
	// The log itself writes checkpoints: start, stop, and one for each recovery.
	if v := checkChain(t, c.Path, VerifyOptions{}); int64(v.Lines-v.Checkpoints) != good.Load() {
		t.Errorf("%d writes were acknowledged, %d lines are in the file", good.Load(), v.Lines-v.Checkpoints)
	}
}

// A function between two lines of a group splits the group: each line gets the outcome of its own
// write.
func TestLinesAroundOtherWorkHaveTheirOwnOutcome(t *testing.T) {
	d := &disk{}
	c := testConfig(t)
	l := mustOpen(t, c, Options{OpenFile: d.open})
	var items []item
	for i := range 3 {
		r := sample(i)
		items = append(items, item{body: r.appendBody(nil)})
	}
	fills := item{do: func() error { d.budget.Store(10); d.limited.Store(true); return nil }}
	items = append(items[:1], append([]item{fills}, items[1:]...)...)
	if err := l.submit(item{do: func() error { l.writer.commit(items); return nil }}); err != nil {
		t.Fatal(err)
	}
	for i, it := range items {
		if failed := errors.Is(it.err, syscall.ENOSPC); failed != (i > 1) || !failed && it.err != nil {
			t.Errorf("item %d: %v", i, it.err)
		}
	}
	d.limited.Store(false)
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Lines-v.Checkpoints != 1 {
		t.Errorf("%d lines are in the file, one was acknowledged", v.Lines-v.Checkpoints)
	}
}

func TestFsyncAlwaysThatFailsIsAnError(t *testing.T) {
	d := &disk{}
	c := testConfig(t)
	c.Fsync = fsyncAlways
	l := mustOpen(t, c, Options{OpenFile: d.open})
	d.noSync.Store(true)
	if err := l.Write(context.Background(), sample(1)); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	d.noSync.Store(false)
	if err := l.Write(context.Background(), sample(2)); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Lines != 3 {
		t.Errorf("%d lines", v.Lines)
	}
}

func TestRotationThatFailsGoesOnWriting(t *testing.T) {
	c := testConfig(t)
	c.MaxSizeMB = 1
	l := mustOpen(t, c, Options{})
	// A directory has the name of the rotated file.
	if err := os.Mkdir(rotatedName(c.Path, 1), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Lines < 3000 {
		t.Errorf("%d lines", v.Lines)
	}
	if info, err := os.Stat(c.Path); err != nil || info.Size() < 1<<20 {
		t.Errorf("%v", err)
	}
}

// Concurrent writers share a write.
func TestWaitingWritersShareOneWrite(t *testing.T) {
	d := &disk{}
	c := testConfig(t)
	c.Fsync = fsyncAlways
	l := mustOpen(t, c, Options{OpenFile: d.open})
	before := d.writes.Load()
	const writers, each = 16, 50
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				if err := l.Write(context.Background(), sample(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := d.writes.Load() - before; n > writers*each/2 {
		t.Errorf("%d writes for %d lines", n, writers*each)
	}
}

// The remainder of a failed write is removed before anything else is written, by whatever part of
// the log: a line after it would be acknowledged and unreadable.
func TestNothingIsWrittenBehindAnUnfinishedLine(t *testing.T) {
	for name, row := range map[string]struct {
		prepare func(*testing.T, *Log)
		failing *Record
		then    func(*testing.T, *Log)
	}{
		"the checkpoint of a rotation is unfinished": {prepare: fillUp, failing: long(),
			then: func(t *testing.T, l *Log) { write(t, l, 1<<20) }},
		"the log is closed next":   {failing: sample(1), then: func(*testing.T, *Log) {}},
		"the log is reopened next": {failing: sample(1), then: func(t *testing.T, l *Log) { reopen(t, l); write(t, l, 1<<20) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{}
			c := testConfig(t)
			c.MaxSizeMB = 1
			l := mustOpen(t, c, Options{OpenFile: d.open})
			if row.prepare != nil {
				row.prepare(t, l)
			}
			d.budget.Store(30)
			d.limited.Store(true)
			d.noTrunc.Store(true)
			if err := l.Write(context.Background(), row.failing); err == nil {
				t.Error("a line was acknowledged on a full disk")
			}
			d.limited.Store(false)
			d.noTrunc.Store(false)
			row.then(t, l)
			mustClose(t, l)
			checkChain(t, c.Path, VerifyOptions{})
			lines := readLines(t, c.Path)
			var last Record
			if err := Decode([]byte(lines[len(lines)-1]), &last); err != nil || last.Checkpoint == nil || last.Checkpoint.Event != eventStop {
				t.Errorf("the log does not end with its last checkpoint: %s", lines[len(lines)-1])
			}
		})
	}
}

func reopen(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
}

// After a write has failed, a reload to a path on a disk with room lets requests pass at once.
func TestANewAuditPathEndsTheFailureOfTheOldOne(t *testing.T) {
	d := &disk{}
	c := testConfig(t)
	l := mustOpen(t, c, Options{OpenFile: func(name string, flag int, perm os.FileMode) (File, error) {
		if name == c.Path {
			return d.open(name, flag, perm)
		}
		return os.OpenFile(name, flag, perm)
	}})
	d.limited.Store(true)
	if err := l.Write(t.Context(), sample(1)); !errors.Is(err, syscall.ENOSPC) || l.Ready() == nil {
		t.Fatalf("a full disk: %v", err)
	}
	moved := c
	moved.Path = filepath.Join(t.TempDir(), "other.jsonl")
	if err := l.Reconfigure(moved); err != nil {
		t.Fatal(err)
	}
	if err := l.Ready(); err != nil {
		t.Error(err)
	}
}
