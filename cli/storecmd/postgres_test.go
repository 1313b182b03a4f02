//go:build unix

package storecmd

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/cli/process/processtest"
	"svc/store"
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
)

// TestReplicasShareOneFirstKey: when several control planes start on one empty
// database, one creates the first key, and only that one writes it to its data
// directory.
func TestReplicasShareOneFirstKey(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	env, _, _ := processtest.New(t)
	const replicas = 4
	dirs := make([]string, replicas)
	var wg sync.WaitGroup
	for i := range dirs {
		dirs[i] = t.TempDir()
		wg.Go(func() {
			so := StoreOptions{url: url}
			st, err := so.open(context.Background(), env, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			defer st.Close()
			if err := bootstrap(context.Background(), env, st, dirs[i], slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	st, err := postgres.Open(context.Background(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	kept := 0
	for _, dir := range dirs {
		secret, err := env.ReadFile(filepath.Join(dir, "bootstrap-key"))
		if err != nil {
			continue
		}
		kept++
		if cred, err := st.Authenticate(context.Background(), store.DigestKey(strings.TrimSpace(string(secret)))); err != nil || cred.TenantID != DefaultTenant {
			t.Errorf("the kept key: %+v, %v", cred, err)
		}
	}
	if kept != 1 {
		t.Errorf("%d replicas keep a first key, want 1", kept)
	}
}

// TestCommandsOnADatabase: the operator's commands work on a database; those for
// files return a clear error.
func TestCommandsOnADatabase(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	url = strings.Replace(url, "svc@", "svc:secret@", 1)
	run := func(args ...string) (string, error) {
		env, out, _ := processtest.New(t)
		cmd := NewStoreCmd(env)
		if args[0] == "tenant" {
			cmd = NewTenantCmd(env)
		}
		cmd.SetArgs(append(args[1:], "--store", url, "--data-dir", t.TempDir()))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(context.Background())
		return out.String(), err
	}
	if out, err := run("store", "info"); err != nil || !strings.Contains(out, "postgres  0") || strings.Contains(out, "secret") {
		t.Errorf("info of an empty database: %q, %v", out, err)
	}
	if out, err := run("tenant", "create", "acme"); err != nil || !strings.Contains(out, "svc_api_") {
		t.Errorf("create: %q, %v", out, err)
	}
	if out, err := run("tenant", "list"); err != nil || !strings.Contains(out, "acme") {
		t.Errorf("list: %q, %v", out, err)
	}
	if out, err := run("store", "info"); err != nil || strings.Contains(out, "postgres  0") {
		t.Errorf("info: %q, %v", out, err)
	}
	if _, err := run("store", "backup", filepath.Join(t.TempDir(), "x")); !errors.Is(err, errNoBackup) {
		t.Errorf("backup: %v", err)
	}
	// A database that PostgreSQL's tools restored is marked, so that gateways report again.
	if _, err := run("store", "restore", "backup.db"); err == nil || !strings.Contains(err.Error(), "not restored from a file") {
		t.Errorf("restore of a file: %v", err)
	}
	if _, err := run("store", "restore", "--backup-time", "2026-11-01T02:00:00Z"); err != nil {
		t.Errorf("restore: %v", err)
	}
	st, err := postgres.Open(context.Background(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if r, err := store.RestoredOf(context.Background(), st); err != nil || r.At.IsZero() || !r.Backup.Equal(time.Date(2026, 11, 1, 2, 0, 0, 0, time.UTC)) {
		t.Errorf("the restore is recorded as %+v, %v", r, err)
	}
	for _, command := range []string{"check", "compact"} {
		if _, err := run("store", command); err == nil || !strings.Contains(err.Error(), "file of an embedded store") {
			t.Errorf("%s: %v", command, err)
		}
	}
}
