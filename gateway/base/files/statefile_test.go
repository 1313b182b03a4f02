package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// writers are the ways to replace a file.
var writers = map[string]func(path string, data []byte) error{
	"Replace": Replace,
	"ReplaceWith": func(path string, data []byte) error {
		return ReplaceWith(path, data, (*os.File).Sync)
	},
}

// A written file is read back, is readable by its owner only, and no temporary
// file remains.
func TestReplaceAndRead(t *testing.T) {
	for name, replace := range writers {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			for _, want := range []string{"the first, which is longer", "the second", ""} {
				if err := replace(path, []byte(want)); err != nil {
					t.Fatal(err)
				}
				holds(t, path, want)
				if err := os.Chmod(path, 0o644); err != nil { // the next write makes it private again
					t.Fatal(err)
				}
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, path, want string }{
		{"too large", file("large", strings.Repeat("x", 11)), "has more than 10 bytes (11): remove it"},
		{"a directory", dir, "is not a regular file: remove it"},
		{"a device", os.DevNull, "is not a regular file"},
		{"a link to itself", loop, "too many levels"},
		{"below a file", filepath.Join(file("file", ""), "state"), "not a directory"},
		{"a name that cannot be", filepath.Join(dir, "a\x00b"), "invalid argument"},
	} {
		t.Run(row.name, func(t *testing.T) {
			data, err := Read(row.path, 10)
			if err == nil || !strings.Contains(err.Error(), row.want) || errors.Is(err, fs.ErrNotExist) || data != nil {
				t.Errorf("%q, %v; want an error with %q", data, err, row.want)
			}
		})
	}
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "none", "state"), ""} {
		if _, err := Read(path, 10); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v, want ErrNotExist", path, err)
		}
	}
	if data, err := Read(file("exact", strings.Repeat("x", 10)), 10); err != nil || len(data) != 10 {
		t.Errorf("as long as it may be: %q, %v", data, err)
	}
}

// A failed write leaves the old file and no temporary file.
func TestReplaceFails(t *testing.T) {
	full := errors.New("no space left on device")
	for _, row := range []struct {
		name  string
		write func(path string) error
	}{
		{"the disk is full when the file is brought to it", func(path string) error {
			return ReplaceWith(path, []byte("new"), func(*os.File) error { return full })
		}},
		{"the file cannot be closed", func(path string) error {
			return ReplaceWith(path, []byte("new"), (*os.File).Close)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			if err := Replace(path, []byte("old")); err != nil {
				t.Fatal(err)
			}
			if err := row.write(path); err == nil {
				t.Error("nothing was said")
			}
			holds(t, path, "old")
		})
	}
}

// A missing directory, and a directory at the path of the file, are errors.
func TestReplaceWhereThereIsNoPlace(t *testing.T) {
	for name, write := range map[string]func(string, []byte) error{"Replace": Replace, "ReplaceWith": writers["ReplaceWith"], "Create": Create} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := write(filepath.Join(dir, "none", "state"), nil); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a missing directory: %v", err)
			}
			if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := write(filepath.Join(dir, "folder"), nil); err == nil {
				t.Error("a directory was replaced")
			}
			if got := names(t, dir); len(got) != 1 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

// A writer that was killed leaves a temporary file. The file itself is
// unchanged, and a later write removes the temporary file once its writer cannot
// exist any longer.
func TestCrashLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	put := func(name string, age time.Duration) {
		t.Helper()
		at := time.Now().Add(-age)
		p := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(p, []byte("ne"), 0o600), os.Chtimes(p, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	put(".state.123.new", 2*abandoned)
	kept := []string{".other.123.new", ".state.123.new.bak", ".state.12a.new", ".state..new", ".state.new", "state.123.new"}
	for _, name := range kept {
		put(name, 2*abandoned)
	}
	put(".state.456.new", abandoned/2) // its writer may still be running
	if data, err := Read(path, 10); err != nil || string(data) != "old" {
		t.Fatalf("%q, %v", data, err)
	}
	if err := Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 10); err != nil || string(data) != "new" {
		t.Errorf("%q, %v", data, err)
	}
	left := strings.Join(names(t, dir), " ")
	for _, name := range append(kept, ".state.456.new", "state") {
		if !strings.Contains(" "+left+" ", " "+name+" ") {
			t.Errorf("%s was removed", name)
		}
	}
	if strings.Contains(left, ".state.123.new ") {
		t.Errorf("a part of two hours ago is still there: %s", left)
	}
}

// Reading follows a link. Replacing replaces the link, and leaves its target
// unchanged.
func TestSymbolicLink(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target"), filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 10); err != nil || string(data) != "old" {
		t.Errorf("%q, %v", data, err)
	}
	if err := Create(path, []byte("new")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a link: %v, want ErrExist", err)
	}
	if err := Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "new")
	holds(t, target, "old")
}

// Of concurrent calls of Create for one file one succeeds, and the others find
// its whole content.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	const n = 8
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = Create(path, bytes.Repeat([]byte{byte('a' + i)}, 100))
			if data, err := Read(path, 100); err != nil || len(data) != 100 || len(bytes.Trim(data, string(data[:1]))) > 0 {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("writer %d: %v, want ErrExist", i, err)
		}
	}
	if winner < 0 {
		t.Fatal("nobody created it")
	}
	holds(t, path, strings.Repeat(string(rune('a'+winner)), 100))
}

// Concurrent writers do not mix their contents.
func TestWritersAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				if err := Replace(path, fmt.Appendf(nil, "%0100d", i)); err != nil {
					t.Error(err)
				}
				if data, err := Read(path, 100); err != nil || len(data) != 100 {
					t.Errorf("%q, %v", data, err)
				}
			}
		})
	}
	wg.Wait()
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// holds checks the content and mode of a file, and that it is alone in its
// directory.
func holds(t *testing.T, path, want string) {
	t.Helper()
	if data, err := os.ReadFile(path); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want a regular file of mode 0600", info.Mode(), err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestReadJSONWantsItsVersion(t *testing.T) {
	type state struct {
		Version int `json:"version"`
		Count   int `json:"count"`
	}
	path := filepath.Join(t.TempDir(), "state.json")
	var got state
	if found, err := ReadJSON(path, 64, &got, &got.Version, 2); found || err != nil {
		t.Errorf("a missing file: %t, %v", found, err)
	}
	for _, row := range []struct{ text, problem string }{
		{`{"version":2,"count":5}`, ""},
		{`{"version":1,"count":5}`, "has version 1, want 2"},
		{`{"count":5}`, "has version 0, want 2"},
		{`{"version":2,`, "unexpected end"},
		{`{"version":2,"count":` + strings.Repeat("1", 64) + `}`, "more than 64 bytes"},
	} {
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got = state{}
		found, err := ReadJSON(path, 64, &got, &got.Version, 2)
		if row.problem == "" && (!found || err != nil || got.Count != 5) || row.problem != "" && (found || err == nil || !strings.Contains(err.Error(), row.problem)) {
			t.Errorf("%s: %t, %v, %+v", row.text, found, err, got)
		}
	}
}
