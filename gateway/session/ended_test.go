package session

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A session that ended before a restart is ended after it; other sessions are
// not.
func TestEndedSessionsStayEndedAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "ended")
	var ids []ID
	for range 3 { // restarts
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

// A file whose last line is truncated, or that contains invalid lines, keeps its
// other lines.
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

// The file has a bounded size, and keeps the newest sessions.
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

// For any content of the file, the parsed sessions are written back unchanged.
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

// An encoded upstream session is decoded to the same value, and everything else
// is refused.
func FuzzReadSession(f *testing.F) {
	f.Add(appendSession(nil, UpstreamSession{ID: "4fd0", Version: "2025-06-18"}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := readSession(text)
		if err != nil {
			return
		}
		if again, err := readSession(appendSession(nil, o)); again != o || err != nil {
			t.Errorf("%q became %q, %v", o, again, err)
		}
	})
}

// If the file cannot be written, a session still ends, and the failure is logged.
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
	if !d.Ended(t.Context(), id) || !strings.Contains(log.String(), "was not saved") {
		t.Errorf("log: %s", log.String())
	}
	d.End(t.Context(), next) // writes a new file
	if got, err := os.ReadFile(d.path); err != nil || !bytes.Equal(got, line(next)) {
		t.Errorf("the file holds %q, %v", got, err)
	}
}
