//go:build unix

package clickhouse

import (
	"testing"
	"time"

	"svc/store"
	"svc/store/clickhouse/clickhousetest"
)

// TestColumnsOfClients: traces of schema 1 can be read after the migration that added
// the client, and the statements of a migration can be run again.
func TestColumnsOfClients(t *testing.T) {
	url := clickhousetest.Start(t).Database(t)
	r := newRig(t, url)
	tn := r.tenant(t, "t")
	batch := r.batch("old", 3)
	batch.Traces[0].Principal = "alice"
	must(tn.Ingest(ctx, batch))(t)
	sh := r.Store.shards[0]
	for _, statement := range []string{"ALTER TABLE traces DROP COLUMN client_name", "ALTER TABLE traces DROP COLUMN client_version", "DROP TABLE svc_schema"} {
		if err := sh.exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // in the second run all columns exist
		if version, err := sh.migrate(ctx, "", schema); err != nil || version != len(schema) {
			t.Fatal(version, err)
		}
		if err := sh.exec(ctx, "DROP TABLE svc_schema"); err != nil {
			t.Fatal(err)
		}
	}
	next := r.batch("new", 1)
	next.Traces[0].ClientName, next.Traces[0].ClientVersion = "cursor", "1.2"
	must(tn.Ingest(ctx, next))(t)
	if tr, err := tn.GetTrace(ctx, "old0"); err != nil || tr.Principal != "alice" || tr.ClientName+tr.ClientVersion != "" {
		t.Errorf("a trace of schema 1: %+v, %v", tr, err)
	}
	list, _, err := tn.ListTraces(ctx, store.TraceFilter{Client: "cursor"}, store.Page{})
	if err != nil || len(list) != 1 || list[0].ClientVersion != "1.2" {
		t.Errorf("a trace with a client: %+v, %v", list, err)
	}
}

// TestSessionsBefore: traces of a session that are older than the table of sessions are
// found, also if the session continues.
func TestSessionsBefore(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	sh := r.Store.shards[0]
	session := func(prefix string, ago time.Duration, name string) {
		b := r.batch(prefix, 3)
		for i := range b.Traces {
			b.Traces[i].SessionID, b.Traces[i].CreatedAt = name, r.clock.Now().Add(-ago)
		}
		must(tn.Ingest(ctx, b))(t)
	}
	for _, statement := range []string{"DROP TABLE bounds_of_sessions", "DROP TABLE sessions", "DROP TABLE sessions_since"} {
		if err := sh.exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	session("old", 30*time.Hour, "goes on")
	session("gone", 29*time.Hour, "ended")
	if err := sh.exec(ctx, "DROP TABLE svc_schema"); err != nil {
		t.Fatal(err)
	}
	if version, err := sh.migrate(ctx, "", schema); err != nil || version != len(schema) {
		t.Fatal(version, err)
	}
	session("late", 40*time.Hour, "ended") // later than the table, with an earlier date
	session("new", time.Hour, "goes on")
	session("fresh", time.Hour, "begins")
	for name, want := range map[string]int{"goes on": 6, "ended": 6, "begins": 3, "is not": 0} {
		list, total, err := tn.ListTraces(ctx, store.TraceFilter{SessionID: name}, store.Page{})
		_, about, more, aerr := tn.ListUncounted(ctx, store.TraceFilter{SessionID: name}, store.Page{Limit: 2})
		if err != nil || aerr != nil || len(list) != want || total != want || about != want || more {
			t.Errorf("%s: %d traces of %d or %d, more: %v, want %d; %v, %v", name, len(list), total, about, more, want, err, aerr)
		}
	}
	_, from, to, err := tn.selection(ctx, sh, &store.TraceFilter{SessionID: "begins"})
	if err != nil || from != 0 || to != r.clock.Now().Add(-time.Hour).UnixNano() && to >= r.clock.Now().UnixNano() {
		t.Errorf("traces are looked for from %d to %d, %v", from, to, err)
	}
}
