//go:build unix

package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/migrations"
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
		"a table":                {`CREATE TABLE policies (n int)`, `relation "policies" already exists`},
		"an index":               {`CREATE TABLE x (n int); CREATE INDEX tenants ON x (n)`, `relation "tenants" already exists`},
		"a type for the version": {`CREATE TYPE svc_schema AS ENUM ('a')`, `type "svc_schema" already exists`},
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

// TestOnlyOlderProgramsRefuse: a program works on a newer schema as long as the schema
// allows it; the error of a program that is too old has both versions.
func TestOnlyOlderProgramsRefuse(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	s := open(t, url, Options{})
	newest := len(schema)
	added := append(append([]migrations.Migration{}, schema...),
		migrations.Migration{Version: newest + 1, Oldest: newest, SQL: `ALTER TABLE marks ADD COLUMN note text`},
		migrations.Migration{Version: newest + 2, Oldest: newest, SQL: `CREATE TABLE more (n int)`})
	if version, err := s.migrate(context.Background(), added); err != nil || version != newest+2 {
		t.Fatal(version, err)
	}
	older := open(t, url, Options{})
	if info, err := older.Info(context.Background()); err != nil || info.SchemaVersion != newest+2 {
		t.Errorf("%+v, %v", info, err)
	}
	removed := append(added, migrations.Migration{Version: newest + 3, Oldest: newest + 1, SQL: `ALTER TABLE marks DROP COLUMN note`})
	if _, err := s.migrate(context.Background(), removed); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), url, Options{}); err == nil || !strings.Contains(err.Error(), "start a newer svc") {
		t.Errorf("an older program: %v", err)
	}
	// A migration that fails does not change the schema.
	broken := append(removed, migrations.Migration{Version: newest + 4, Oldest: 1, SQL: `CREATE TABLE half (n int); SELECT broken`})
	if _, err := s.migrate(context.Background(), broken); err == nil {
		t.Error("a broken migration was made")
	}
	if version, _, err := schemaOf(context.Background(), s.pool); version != newest+3 || err != nil {
		t.Errorf("schema %d, %v", version, err)
	}
}

// TestColumnsOfClients: traces of schema 1 can be read after the migration that added the
// client, and programs of schema 1 can write at the same time.
func TestColumnsOfClients(t *testing.T) {
	ctx := context.Background()
	url := postgrestest.Start(t).Database(t)
	s := open(t, url, Options{})
	info, _, err := s.CreateTenant(ctx, store.TenantCreate{Name: "t", Key: &store.KeyCreate{Name: "k", Digest: store.DigestKey("k")}})
	if err != nil {
		t.Fatal(err)
	}
	ingest := func(tr store.Trace) {
		t.Helper()
		tr.AgentName, tr.Status = "a", store.TraceSuccess
		if _, err := s.TracesOf(info.ID).Ingest(ctx, store.Batch{Traces: []store.Trace{tr}}); err != nil {
			t.Fatal(err)
		}
	}
	ingest(store.Trace{ID: "old", Principal: "alice"})
	for _, sql := range []string{`ALTER TABLE traces DROP COLUMN client_name, DROP COLUMN client_version`, `UPDATE svc_schema SET version = 1`} {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, url, Options{})
	ingest(store.Trace{ID: "new", ClientName: "cursor", ClientVersion: "1.2"})
	// An older program's INSERT has only the columns of schema 1.
	if _, err := s.pool.Exec(ctx, `INSERT INTO traces (tenant, created, seq, id, agent, agent_name, error, blocked, env, session, provider, model, tool,
		request, client, rule, reason, error_kind, input, output, cache_read, cache_made, cost, duration, score)
		SELECT tenant, created, seq + 1, 'older', agent, agent_name, error, blocked, env, session, provider, model, tool,
		request, client, rule, reason, error_kind, input, output, cache_read, cache_made, cost, duration, score FROM traces WHERE id = 'new'`); err != nil {
		t.Fatal(err)
	}
	tr, err := s.TracesOf(info.ID).GetTrace(ctx, "old")
	if err != nil || tr.Principal != "alice" || tr.ClientName+tr.ClientVersion != "" {
		t.Errorf("a trace of schema 1: %+v, %v", tr, err)
	}
	list, _, err := s.TracesOf(info.ID).ListTraces(ctx, store.TraceFilter{Client: "cursor"}, store.Page{})
	if err != nil || len(list) != 1 || list[0].ClientVersion != "1.2" {
		t.Errorf("traces with a client: %+v, %v", list, err)
	}
}
