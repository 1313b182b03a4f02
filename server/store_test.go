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

// testStore is the URL of a PostgreSQL server on which the tests of this package store
// their data, each in its own schema; without it each test has a file.
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

// TestOnPostgreSQL runs tests of this package again on PostgreSQL, in a child process.
func TestOnPostgreSQL(t *testing.T) {
	if os.Getenv(testStore) != "" {
		return // this process is the child
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

// onBoth lists the tests that depend on the store; the others would test the same code
// twice.
const onBoth = `Rows?$|^Test(Idempotency|Ingest|Stream[SFROE]|AnotherTenants|Cursors|Export|Governance|AuditEvents|IfMatch|Trace|StatsAgainst|TheLast|KeyLastUsed|DeletedAgent|Concurrent|WebhookEvents)`
