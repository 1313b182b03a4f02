//go:build unix

package clickhouse

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/clickhouse/clickhousetest"
)

// TestMigrationOfAnInventedSchema: a second version adds a column and a table. Its statements
// can be run again after a crash, the traces of version 1 stay readable, a program of
// version 1 goes on as long as the schema allows it, and is refused afterwards.
func TestMigrationOfAnInventedSchema(t *testing.T) {
	url := clickhousetest.Start(t).Database(t)
	var logged bytes.Buffer
	r := newRig(t, url)
	r.Store = open(t, url, r.records, Options{Now: r.clock.Now, MergeEvery: -1, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	tn := r.tenant(t, "t")
	must(tn.Ingest(ctx, r.batch("old", 3)))(t)
	sh := r.Store.shards[0]
	second := append(slices.Clone(schema), store.Migration{Version: 2, Oldest: 1,
		SQL: "ALTER TABLE traces @CLUSTER ADD COLUMN note String AFTER client;\nCREATE TABLE IF NOT EXISTS notes @CLUSTER (n Int64) ENGINE ORDER BY n;"})
	if version, err := sh.migrate(ctx, "", second); err == nil || !strings.Contains(err.Error(), "start 'svc serve'") {
		t.Errorf("migrated without being allowed to: schema %d, %v", version, err)
	}
	r.Store.opts.Migrate = true
	if version, err := sh.migrate(ctx, "", second); err != nil || version != 2 || strings.Count(logged.String(), "from=1 to=2") != 2 {
		t.Fatal(version, err, &logged)
	}
	if err := sh.exec(ctx, "DROP TABLE svc_schema_version"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the column and the table exist
		if version, err := sh.migrate(ctx, "", second); err != nil || version != 2 {
			t.Fatal(version, err)
		}
		if err := sh.exec(ctx, "DROP TABLE svc_schema_version"); err != nil {
			t.Fatal(err)
		}
	}
	if version, err := sh.migrate(ctx, "", second); err != nil || version != 2 {
		t.Fatal(version, err)
	}
	must(tn.Ingest(ctx, r.batch("new", 1)))(t)
	for _, id := range []string{"old0", "new0"} {
		if tr, err := tn.GetTrace(ctx, id); err != nil || tr.ID != id {
			t.Errorf("%s: %+v, %v", id, tr, err)
		}
	}
	if version, err := sh.migrate(ctx, "", schema); err != nil || version != 2 {
		t.Errorf("a program of version 1: schema %d, %v", version, err)
	}
	third := append(second, store.Migration{Version: 3, Oldest: 3, SQL: "DROP TABLE notes"})
	if version, err := sh.migrate(ctx, "", third); err != nil || version != 3 {
		t.Fatal(version, err)
	}
	if _, err := Open(ctx, url, Options{Agents: r.opts.Agents}); err == nil || !strings.Contains(err.Error(), "start a newer svc") {
		t.Errorf("a program of version 1 on schema 3: %v", err)
	}
}

// TestStoreOfAnUnreleasedBuild: the tables of a build from before the first release are
// refused and not changed.
func TestStoreOfAnUnreleasedBuild(t *testing.T) {
	url := clickhousetest.Start(t).Database(t)
	r := newRig(t, url)
	sh := r.Store.shards[0]
	if err := sh.exec(ctx, "RENAME TABLE svc_schema_version TO svc_schema"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, url, Options{Agents: r.opts.Agents}); err == nil || !strings.Contains(err.Error(), "before the first release") {
		t.Errorf("opened: %v", err)
	}
	if info, err := Describe(ctx, url); err == nil {
		t.Errorf("described as %+v", info)
	}
}

// TestTracesOfASession: a filter on a session reads the time in which the session has traces.
func TestTracesOfASession(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	b := r.batch("a", 3)
	for i := range b.Traces {
		b.Traces[i].SessionID, b.Traces[i].CreatedAt = "begins", r.clock.Now().Add(time.Duration(i-9)*time.Hour)
	}
	must(tn.Ingest(ctx, b))(t)
	for name, want := range map[string]int{"begins": 3, "is not": 0} {
		list, total, err := tn.ListTraces(ctx, store.TraceFilter{SessionID: name}, store.Page{})
		if err != nil || len(list) != want || total != want {
			t.Errorf("%s: %d traces of %d, want %d, %v", name, len(list), total, want, err)
		}
	}
	_, from, to, err := tn.selection(ctx, r.Store.shards[0], &store.TraceFilter{SessionID: "begins"})
	if first, last := b.Traces[0].CreatedAt.UnixNano(), b.Traces[2].CreatedAt.UnixNano(); err != nil || from != first || to != last {
		t.Errorf("traces are looked for from %d to %d, want %d to %d, %v", from, to, first, last, err)
	}
}
