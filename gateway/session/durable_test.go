package session

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A session that ended before a restart is ended after it; one that did not is
// not.
func TestEndedSessionsStayEndedAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "ended")
	var ids []ID
	for range 3 { // starts
		d := openDurable(t, path)
		for _, id := range ids {
			if !d.Ended(t.Context(), id) {
				t.Error("an ended session is usable again")
			}
		}
		id := NewID()
		if d.Ended(t.Context(), id) {
			t.Error("a new session has ended")
		}
		d.End(t.Context(), id)
		ids = append(ids, id)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A file whose last line was cut off, or that holds something else besides, loses
// nothing else.
func TestEndedSessionsOfAFileThatWasCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ended")
	one, other := NewID(), NewID()
	text := append(line(one), "no line\n\n"...)
	text = append(text, line(other)...)
	text = append(text, line(NewID())[:10]...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	d := openDurable(t, path)
	if !d.Ended(t.Context(), one) || !d.Ended(t.Context(), other) {
		t.Error("an ended session is usable again")
	}
	last := NewID()
	d.End(t.Context(), last)
	got, err := os.ReadFile(path)
	if want := append(append(line(one), line(other)...), line(last)...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// The file does not grow without end, and keeps the newest.
func TestEndedSessionsFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ended")
	d := openDurable(t, path)
	first := NewID()
	d.End(t.Context(), first)
	var last ID
	for range 2*maxEnded + 10 {
		last = NewID()
		d.End(t.Context(), last)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 2*maxEnded*(idText+1) {
		t.Fatalf("%d bytes, %v", info.Size(), err)
	}
	again := openDurable(t, path)
	if again.Ended(t.Context(), first) || !again.Ended(t.Context(), last) || again.Len() > maxEnded+10 {
		t.Errorf("%d are remembered, the newest: %v", again.Len(), again.Ended(t.Context(), last))
	}
}

// Whatever stands in the file, what is read of it is written back the same.
func FuzzReadEnded(f *testing.F) {
	f.Add(line(NewID()))
	f.Add(append(line(ID{}), "\n\xff\nAAAA"...))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "ended")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenDurable(path, 10, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		once, err := os.ReadFile(path)
		if err != nil || len(once) > len(text)+1 {
			t.Fatalf("%d bytes became %d, %v", len(text), len(once), err)
		}
		if ids, err := readEnded(path); err != nil || len(ids)*(idText+1) != len(once) {
			t.Errorf("%d ids in %q, %v", len(ids), once, err)
		}
	})
}

// What stands for a pair is read as it was written, and the rest refused.
func FuzzReadPair(f *testing.F) {
	f.Add(appendPair(nil, UpstreamSession{ID: "4fd0", Version: "2025-06-18"}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := readPair(text)
		if err != nil {
			return
		}
		if again, err := readPair(appendPair(nil, o)); again != o || err != nil {
			t.Errorf("%q became %q, %v", o, again, err)
		}
	})
}

// Where it cannot be written a session ends all the same, and that is told.
func TestEndThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenDurable(filepath.Join(dir, "file\x00"), 10, nil, nil); err == nil {
		t.Error("opened what cannot be")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDurable(filepath.Join(dir, "folder"), 10, nil, nil); err == nil {
		t.Error("a directory was opened")
	}
	var log bytes.Buffer
	d, err := OpenDurable(filepath.Join(dir, "sub", "ended"), 10, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.file.Close() // the next write fails
	id, next := NewID(), NewID()
	d.End(t.Context(), id)
	if !d.Ended(t.Context(), id) || !strings.Contains(log.String(), "was not written down") {
		t.Errorf("log: %s", log.String())
	}
	d.End(t.Context(), next) // opens the file anew
	if got, err := os.ReadFile(d.path); err != nil || !bytes.Equal(got, line(next)) {
		t.Errorf("the file holds %q, %v", got, err)
	}
}
