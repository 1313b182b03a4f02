//go:build unix

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/postgres/postgrestest"
)

// TestSeveralProcessesMigrate: of several processes that start on an empty database one
// creates the schema, and all can use the store.
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

// TestSomethingIsThereAlready: a database with a relation or a type that has a name of the
// schema gives an error at once, with the name and advice, and is not changed.
func TestSomethingIsThereAlready(t *testing.T) {
	server := postgrestest.Start(t)
	for name, tt := range map[string]struct{ make, want string }{
		"a table":                {`CREATE TABLE records (n int)`, `relation "records" already exists`},
		"an index":               {`CREATE TABLE x (n int); CREATE INDEX tenants ON x (n)`, `relation "tenants" already exists`},
		"a type for the version": {`CREATE TYPE svc_version AS ENUM ('a')`, `type "svc_version" already exists`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, url := withTimeout(t, 30*time.Second), server.Database(t)
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			if _, err := conn.Exec(ctx, tt.make); err != nil {
				t.Fatal(err)
			}
			_, err = Open(ctx, url, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "an empty database of its own") {
				t.Errorf("%v", err)
			}
			if version, _, err := schemaOf(ctx, conn); version != 0 || err != nil {
				t.Errorf("schema %d, %v", version, err)
			}
		})
	}
}

// TestAnotherEncodingIsRefused: a database whose text is not UTF-8 is refused, with the
// command that creates another, and not changed.
func TestAnotherEncodingIsRefused(t *testing.T) {
	ctx, url := withTimeout(t, 60*time.Second), postgrestest.Start(t).Database(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	_, err = Open(ctx, strings.Replace(url, "/test_1", "/latin", 1), Options{})
	if err == nil || !strings.Contains(err.Error(), "encoding LATIN1") || !strings.Contains(err.Error(), "createdb -E UTF8 -T template0") {
		t.Errorf("opened: %v", err)
	}
}

// TestOnlyOlderProgramsRefuse: a program works on a newer schema as long as the schema
// allows it; the error of a program that is too old has both versions.
func TestOnlyOlderProgramsRefuse(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	var logged bytes.Buffer
	s := open(t, url, Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	newest := len(schema)
	added := append(append([]store.Migration{}, schema...),
		store.Migration{Version: newest + 1, Oldest: newest, SQL: `ALTER TABLE marks ADD COLUMN note text`},
		store.Migration{Version: newest + 2, Oldest: newest, SQL: `CREATE TABLE more (n int)`})
	if version, err := s.migrate(context.Background(), added); err == nil || !strings.Contains(err.Error(), "start 'svc serve'") {
		t.Errorf("migrated without being allowed to: schema %d, %v", version, err)
	}
	if version, _, err := schemaOf(context.Background(), s.pool); version != newest || err != nil {
		t.Errorf("schema %d, %v", version, err)
	}
	s.opts.Migrate = true
	if version, err := s.migrate(context.Background(), added); err != nil || version != newest+2 {
		t.Fatal(version, err)
	}
	if want := fmt.Sprintf("from=%d to=%d", newest, newest+2); strings.Count(logged.String(), want) != 2 {
		t.Errorf("the log has no two lines with %s: %s", want, &logged)
	}
	older := open(t, url, Options{})
	if info, err := older.Info(context.Background()); err != nil || info.SchemaVersion != newest+2 {
		t.Errorf("%+v, %v", info, err)
	}
	removed := append(added, store.Migration{Version: newest + 3, Oldest: newest + 1, SQL: `ALTER TABLE marks DROP COLUMN note`})
	if _, err := s.migrate(context.Background(), removed); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), url, Options{}); err == nil || !strings.Contains(err.Error(), "start a newer svc") {
		t.Errorf("an older program: %v", err)
	}
	// A migration that fails does not change the schema.
	broken := append(removed, store.Migration{Version: newest + 4, Oldest: 1, SQL: `CREATE TABLE half (n int); SELECT broken`})
	if _, err := s.migrate(context.Background(), broken); err == nil {
		t.Error("a broken migration was made")
	}
	if version, _, err := schemaOf(context.Background(), s.pool); version != newest+3 || err != nil {
		t.Errorf("schema %d, %v", version, err)
	}
}

// TestStoreOfAnUnreleasedBuild: a database of a build from before the first release is
// refused and not changed.
func TestStoreOfAnUnreleasedBuild(t *testing.T) {
	server := postgrestest.Start(t)
	for _, sql := range []string{`ALTER TABLE svc_version RENAME TO svc_schema`, `ALTER TABLE svc_version RENAME TO svc_schema_version`, `CREATE TABLE rollup_words (n bigint)`} {
		testUnreleased(t, server.Database(t), sql)
	}
}

func testUnreleased(t *testing.T, url, sql string) {
	s := open(t, url, Options{})
	if _, err := s.pool.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), url, Options{}); err == nil || !strings.Contains(err.Error(), "before the first release") {
		t.Errorf("opened: %v", err)
	}
	if info, err := Describe(context.Background(), url); err == nil {
		t.Errorf("described as %+v", info)
	}
	if version, _, err := schemaOf(context.Background(), s.pool); version != 0 || err == nil {
		t.Errorf("schema %d, %v", version, err)
	}
}
