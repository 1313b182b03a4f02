//go:build unix

package server

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/bolt"
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
)

// testStore names a server of PostgreSQL on which the tests of this package keep what
// they store, each in a schema of its own; without it each has a file.
const testStore = "SVC_TEST_STORE"

// openStore opens an empty store.
func openStore(t testing.TB, now func() time.Time) (store.Engine, error) {
	t.Helper()
	url := os.Getenv(testStore)
	if url == "" {
		return bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{Now: now, NoSync: true})
	}
	return postgres.Open(context.Background(), postgrestest.Schema(t, url), postgres.Options{Now: now})
}

// TestOnPostgreSQL runs tests of this package again with their stores on
// PostgreSQL, in a process of its own.
func TestOnPostgreSQL(t *testing.T) {
	if os.Getenv(testStore) != "" {
		return // it is this process
	}
	server := postgrestest.Start(t)
	again := exec.Command(os.Args[0], "-test.run="+onBoth, "-test.timeout=5m", "-test.v")
	again.Env = append(os.Environ(), testStore+"="+server.Database(t))
	out, err := again.CombinedOutput()
	if err != nil || bytes.Count(out, []byte("--- PASS")) < 60 {
		for _, line := range strings.Split(string(out), "\n") {
			if strings.Contains(line, "_test.go:") || strings.Contains(line, "--- FAIL") || strings.Contains(line, "panic") {
				t.Log(line)
			}
		}
		t.Fatalf("%d tests passed: %v", bytes.Count(out, []byte("--- PASS")), err)
	}
}

// onBoth are the tests that are about what is stored; the others ask the same of both.
const onBoth = `Rows?$|^Test(Idempotency|Ingest|Stream[SFROE]|AnotherTenants|Cursors|Export|Governance|AuditEvents|IfMatch|Trace|StatsAgainst|TheLast|KeyLastUsed|DeletedAgent|Concurrent|WebhookEvents)`
