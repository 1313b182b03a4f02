//go:build unix

package clickhouse

import (
	"testing"

	"svc/store"
	"svc/store/clickhouse/clickhousetest"
)

// TestColumnsOfClients: traces of schema 1 are read after the migration that added the
// client, and the statements of a migration may run again.
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
	for range 2 { // the second time all columns are there
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
