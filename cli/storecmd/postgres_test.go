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
	// A database that PostgreSQL's tools restored is marked, so that gateways report again. Its approvals
	// may have been decided and used after the backup: they end.
	tenant, ids := requestApprovals(t, url)
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
	for id, want := range ids {
		if a, err := st.Tenant(tenant).GetApproval(t.Context(), id, "", ""); err != nil || a.Status != want {
			t.Errorf("after the restore an approval is %s, %v; want %s", a.Status, err, want)
		}
	}
	if r, err := store.RestoredOf(context.Background(), st); err != nil || r.At.IsZero() || !r.Backup.Equal(time.Date(2026, 11, 1, 2, 0, 0, 0, time.UTC)) {
		t.Errorf("the restore is recorded as %+v, %v", r, err)
	}
	for _, command := range []string{"check", "compact"} {
		if _, err := run("store", command); err == nil || !strings.Contains(err.Error(), "file of an embedded store") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// requestApprovals makes an open, a granted and a denied approval of the only tenant, and returns what
// they must be after a restore.
func requestApprovals(t *testing.T, url string) (tenant string, ids map[string]string) {
	t.Helper()
	st, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	tenants, err := st.ListTenants(t.Context())
	if err != nil || len(tenants) != 1 {
		t.Fatalf("%v, %v", tenants, err)
	}
	tn := st.Tenant(tenants[0].ID)
	ids = map[string]string{}
	key, err := tn.CreateKey(t.Context(), store.KeyCreate{Name: "both", Scope: store.ScopeAPI, Digest: store.DigestKey("x"), CreatedBy: store.DefaultAdminID})
	if err != nil {
		t.Fatal(err)
	}
	for i, decision := range []string{"", store.DecisionGrant, store.DecisionDeny} {
		made, err := tn.RequestApproval(t.Context(), key.ID, store.ApprovalCall{Digest: strings.Repeat(string(rune('a'+i)), 64), KeyTag: "00000001", Tool: "pay", Method: "tools/call",
			AgentName: "billing", Principal: "key:bob", Upstream: "bank", Gateway: "gw", RequestID: "r", ValidFor: time.Hour, Expires: time.Hour,
			NotSelf: store.SelfForbidden, Show: store.ShowAll, Reasons: []store.ApprovalReason{{RuleID: "r"}}})
		if err == nil && decision != "" {
			_, err = tn.DecideApproval(t.Context(), made.ID, store.ApprovalDecision{KeyID: key.ID, Decision: decision})
		}
		if err != nil {
			t.Fatal(err)
		}
		ids[made.ID] = store.ApprovalExpired
		if decision == store.DecisionDeny {
			ids[made.ID] = store.ApprovalDenied
		}
	}
	return tenants[0].ID, ids
}
