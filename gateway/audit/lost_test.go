package audit

import (
	"context"
	"os"
	"strings"
	"testing"
)

// loseOne opens a log with on_write_error: count, calls prepare while the disk works, and loses
// one line.
func loseOne(t *testing.T, prepare func(*Log)) (*disk, *Log) {
	t.Helper()
	d := &disk{}
	c := testConfig(t)
	c.OnWriteError, c.MaxSizeMB = onErrorCount, 1
	l := mustOpen(t, c, Options{OpenFile: d.open})
	if prepare != nil {
		prepare(l)
	}
	d.limited.Store(true)
	write(t, l, 1)
	d.limited.Store(false)
	if l.Lost() != 1 {
		t.Fatalf("%d lines were counted as lost, want 1", l.Lost())
	}
	return d, l
}

func write(t *testing.T, l *Log, i int) {
	t.Helper()
	if err := l.Write(context.Background(), sample(i)); err != nil {
		t.Fatal(err)
	}
}

// long is a record whose line is much longer than those of sample.
func long() *Record {
	r := sample(0)
	for range maxList {
		r.PoliciesFired = append(r.PoliciesFired, PolicyFired{ID: "p", Name: strings.Repeat("n", maxString), Action: "warn"})
	}
	return r
}

// fillUp writes lines until a line of sample fits in the file, and a line of long does not.
func fillUp(t *testing.T, l *Log) {
	t.Helper()
	line := int64(len(lineOf(long())))
	for i := 0; ; i++ {
		var full bool
		if err := l.submit(item{do: func() error { full = l.writer.full(line); return nil }}); err != nil {
			t.Fatal(err)
		}
		if full {
			return
		}
		write(t, l, i)
	}
}

func writeLong(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Write(context.Background(), long()); err != nil {
		t.Fatal(err)
	}
}

// The number of lost lines in the file is the number that the log counted, whichever checkpoint
// comes first after the loss.
func TestEachLostLineIsReportedByOneCheckpoint(t *testing.T) {
	for _, row := range []struct {
		name    string
		prepare func(*testing.T, *Log)
		then    func(*testing.T, *Log)
	}{
		{"the next write rotates", fillUp, writeLong},
		{"the next write cannot rotate", func(t *testing.T, l *Log) {
			fillUp(t, l)
			if err := os.Mkdir(rotatedName(l.writer.cfg.Path, 1), 0o700); err != nil {
				t.Fatal(err)
			}
		}, writeLong},
		{"a line and a checkpoint share the next write", nil, func(t *testing.T, l *Log) {
			items := []item{{body: sample(2).appendBody(nil)}, {event: eventInterval}}
			if err := l.submit(item{do: func() error { l.writer.commit(items); return nil }}); err != nil {
				t.Fatal(err)
			}
		}},
		{"a checkpoint is the next write", nil, func(t *testing.T, l *Log) {
			if err := l.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}},
		{"the end is the next write", nil, func(*testing.T, *Log) {}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, l := loseOne(t, func(l *Log) {
				if row.prepare != nil {
					row.prepare(t, l)
				}
			})
			path := l.writer.cfg.Path
			row.then(t, l)
			mustClose(t, l)
			if v := checkChain(t, path, VerifyOptions{}); v.Lost != 1 {
				t.Errorf("the log reports %d lost lines, one was lost", v.Lost)
			}
		})
	}
}

// A checkpoint that does not reach the file leaves the number to the next.
func TestLostLinesOfAFailedCheckpointAreReportedLater(t *testing.T) {
	d, l := loseOne(t, nil)
	d.limited.Store(true)
	if err := l.Checkpoint(); err == nil {
		t.Error("a checkpoint was written to a full disk")
	}
	write(t, l, 2)
	d.limited.Store(false)
	write(t, l, 3)
	if l.Lost() != 2 {
		t.Errorf("%d lines were counted as lost, want 2: a checkpoint is no line of a caller", l.Lost())
	}
	path := l.writer.cfg.Path
	mustClose(t, l)
	if v := checkChain(t, path, VerifyOptions{}); v.Lost != 2 {
		t.Errorf("the log reports %d lost lines, two were lost", v.Lost)
	}
}
