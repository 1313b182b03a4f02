package storecmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/cli/process/processtest"
	"svc/store"
	"svc/store/bolt"
	"svc/store/clickhouse"
	"svc/store/postgres"
)

// TestReadingCommandsChangeNothing: info, backup, check and the list of tenants read the file,
// in which a server that was killed left a lease, and neither change nor create one.
func TestReadingCommandsChangeNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "svc.db")
	run := func(dir string, args ...string) (string, error) {
		env, out, _ := processtest.New(t)
		cmd := NewStoreCmd(env)
		if args[0] == "list" {
			cmd = NewTenantCmd(env)
		}
		cmd.SetArgs(append(args, "--data-dir", dir))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	commands := [][]string{{"info"}, {"backup", filepath.Join(t.TempDir(), "backup.db")}, {"check"}, {"list"}}
	for _, args := range commands {
		if _, err := run(dir, args...); err == nil || !strings.Contains(err.Error(), "there is no file") {
			t.Errorf("%s without a store: %v", args[0], err)
		}
	}
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTenant(t.Context(), store.TenantCreate{ID: "acme", Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.AcquireLease(t.Context(), "retention", "killed", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		out, err := run(dir, args...)
		if err != nil || args[0] == "list" && !strings.Contains(out, "acme") {
			t.Errorf("%s: %q, %v", args[0], out, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s changed the file, %v", args[0], err)
		}
	}
}

// TestInfoNamesAChangeOfTheSchema: what the next start of 'svc serve' does to the schema, and
// the way back, is on standard error; nothing is when the schema is current or there is none.
func TestInfoNamesAChangeOfTheSchema(t *testing.T) {
	for backend, row := range map[string]struct {
		newest int
		want   string
	}{
		"bolt":       {bolt.SchemaVersion(), "copy /d/svc.db.before-schema-"},
		"postgres":   {postgres.SchemaVersion(), "writes no copy"},
		"clickhouse": {clickhouse.SchemaVersion(), "writes no copy"},
	} {
		for _, version := range []int{-1, 0, row.newest, row.newest + 1} {
			env, _, stderr := processtest.New(t)
			noteSchema(env, store.Info{Backend: backend, Location: "/d/svc.db", SchemaVersion: version})
			if older := version == -1; older != strings.Contains(stderr.String(), row.want) || older == (stderr.Len() == 0) {
				t.Errorf("%s, schema %d of %d: %q", backend, version, row.newest, stderr)
			}
		}
	}
}
