//go:build unix

package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"

	"svc/store/postgres/postgrestest"
)

// TestSeveralProcessesMigrate: of several processes that start on an empty database one
// makes the schema, and all serve.
func TestSeveralProcessesMigrate(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := Open(context.Background(), url, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Ready(context.Background()); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestOnlyOlderProgramsRefuse: a program works on a newer schema as long as that says
// so, and one that is too old names both versions.
func TestOnlyOlderProgramsRefuse(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	s := open(t, url, Options{})
	newest := len(migrations)
	added := append(append([]migration{}, migrations...),
		migration{newest + 1, newest, `ALTER TABLE marks ADD COLUMN note text`},
		migration{newest + 2, newest, `CREATE TABLE more (n int)`})
	if version, err := s.migrate(context.Background(), added); err != nil || version != newest+2 {
		t.Fatal(version, err)
	}
	older := open(t, url, Options{})
	if info, err := older.Info(context.Background()); err != nil || info.SchemaVersion != newest+2 {
		t.Errorf("%+v, %v", info, err)
	}
	removed := append(added, migration{newest + 3, newest + 1, `ALTER TABLE marks DROP COLUMN note`})
	if _, err := s.migrate(context.Background(), removed); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), url, Options{}); err == nil || !strings.Contains(err.Error(), "start a newer svc") {
		t.Errorf("an older program: %v", err)
	}
	// A migration that fails leaves the schema as it was.
	broken := append(removed, migration{newest + 4, 1, `CREATE TABLE half (n int); SELECT broken`})
	if _, err := s.migrate(context.Background(), broken); err == nil {
		t.Error("a broken migration was made")
	}
	if version, _, err := schemaOf(context.Background(), s.pool); version != newest+3 || err != nil {
		t.Errorf("schema %d, %v", version, err)
	}
}
