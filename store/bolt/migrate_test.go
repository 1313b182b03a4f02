package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// knowing makes the program one that knows schema len(steps)+1, until the end of the test.
func knowing(t *testing.T, steps ...migration) {
	t.Helper()
	own := migrations
	t.Cleanup(func() { migrations = own })
	migrations = steps
}

// TestMigration opens a file of schema 1 with a program that knows 3.
func TestMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "team", Options{})
	var ran []int
	first := func(tx *bbolt.Tx) error {
		ran = append(ran, 1)
		_, err := tx.CreateBucket([]byte("two"))
		return err
	}
	knowing(t, first, func(*bbolt.Tx) error { ran = append(ran, 2); return errors.New("step fails") })
	if _, err := Open(path, Options{Migrate: true}); err == nil || !strings.Contains(err.Error(), "step fails") {
		t.Fatalf("a failing step: %v", err)
	}
	knowing(t)
	s, err := Open(path, Options{}) // nothing of the failed migration was stored
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	knowing(t, first, func(*bbolt.Tx) error { ran = append(ran, 3); return nil })
	s, err = Open(path, Options{Migrate: true})
	if err != nil || s.schema != 3 || fmt.Sprint(ran) != "[1 2 1 3]" {
		t.Fatalf("schema %v, steps %v, %v", s, ran, err)
	}
	s.Close()
	knowing(t)
	if _, err = Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("the old program on the new file: %v", err)
	}
}

// TestOnlyAServerMigrates: a file of an older schema is described, backed up and checked
// without a change, and everything else refuses it with the command to run.
func TestOnlyAServerMigrates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "team", Options{})
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	knowing(t, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("two")); return err })
	if found, err := Check(ctx, path, nil); err != nil || found != (Checked{Schema: 1, Newest: 2}) {
		t.Errorf("check: %+v, %v", found, err)
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := r.Info(ctx); err != nil || info.SchemaVersion != 1 {
		t.Errorf("info: %+v, %v", info, err)
	}
	var backup bytes.Buffer
	if _, err := r.Backup(ctx, &backup); err != nil {
		t.Error(err)
	}
	refused := map[string]error{}
	_, refused["tenant list"] = r.ListTenants(ctx)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	_, refused["open"] = Open(path, Options{})
	_, refused["source of a dry run"] = OpenSource(path, Options{})
	_, refused["target of a dry run"] = OpenTarget(path, Options{})
	for name, err := range refused {
		var fe *FileError
		if !errors.As(err, &fe) || !strings.Contains(fe.Problem, "has schema 1") || !strings.Contains(fe.Advice, "'svc serve'") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed, %v", err)
	}
	if list := filesBeside(t, path); !slices.Equal(list, []string{"svc.db"}) {
		t.Errorf("files: %v", list)
	}
	knowing(t)
	if _, err := Restore(ctx, &backup, path, benchStart, nil); err != nil || teamOf(t, path) != "team" {
		t.Errorf("the program of schema 1 and the backup: %v", err)
	}
}

// filesBeside lists the folder of a file.
func filesBeside(t *testing.T, path string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestCopyBeforeAChangeOfTheSchema: a copy is written before the schema changes, with which
// the earlier program goes on, and it is kept until the next change. From, to and the copy
// are logged.
func TestCopyBeforeAChangeOfTheSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "team", Options{})
	var logged bytes.Buffer
	o := Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	nothing := func(*bbolt.Tx) error { return nil }
	migrate := func() {
		t.Helper()
		if s, err := Open(path, o); err != nil || s.Close() != nil {
			t.Fatal(err)
		}
	}
	knowing(t, nothing)
	migrate()
	if list := filesBeside(t, path); !slices.Equal(list, []string{"svc.db", "svc.db.before-schema-2"}) {
		t.Errorf("files: %v", list)
	}
	if n := strings.Count(logged.String(), fmt.Sprintf("from=1 to=2 copy=%s", path+".before-schema-2")); n != 2 {
		t.Errorf("%d lines of the log name the change and the copy: %s", n, &logged)
	}
	migrate() // nothing to change
	if n := strings.Count(logged.String(), "\n"); n != 2 {
		t.Errorf("the log has %d lines: %s", n, &logged)
	}

	knowing(t, nothing, func(*bbolt.Tx) error { return errors.New("step fails") })
	if _, err := Open(path, o); err == nil {
		t.Error("a failing step")
	}
	if list := filesBeside(t, path); len(list) != 3 {
		t.Errorf("files after a failed change: %v", list)
	}
	knowing(t, nothing, nothing)
	migrate()
	if list := filesBeside(t, path); !slices.Equal(list, []string{"svc.db", "svc.db.before-schema-3"}) {
		t.Errorf("files after the next change: %v", list)
	}

	// The way back: the earlier program and the copy.
	knowing(t, nothing)
	copied, err := os.Open(path + ".before-schema-3")
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if _, err := Restore(ctx, copied, path, benchStart, nil); err != nil || teamOf(t, path) != "team" {
		t.Errorf("back: %v", err)
	}

	// No empty store is created where a copy is left.
	if err := os.Rename(path, path+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, o); err == nil || !strings.Contains(err.Error(), "there is no store here") {
		t.Errorf("an empty store beside a copy: %v", err)
	}
}

// TestNoChangeOfTheSchemaWithoutItsCopy: when the copy cannot be written, the store is as it was.
func TestNoChangeOfTheSchemaWithoutItsCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "team", Options{})
	if err := os.Mkdir(path+copyingSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	knowing(t, func(*bbolt.Tx) error { t.Error("migrated"); return nil })
	if _, err := Open(path, Options{Migrate: true}); err == nil || !strings.Contains(err.Error(), "before its schema is changed") {
		t.Errorf("opened: %v", err)
	}
	knowing(t)
	if teamOf(t, path) != "team" {
		t.Error("the store was changed")
	}
}
