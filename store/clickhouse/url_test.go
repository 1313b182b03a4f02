package clickhouse

import (
	"strings"
	"testing"

	"svc/store"
)

func TestURL(t *testing.T) {
	for text, want := range map[string]string{
		"clickhouse://svc:secret@a,b:9001/traces":          "clickhouse://svc@a:9000,b:9001/traces",
		"clickhouse://a/traces?secure=true":                "clickhouse://default@a:9440/traces",
		"clickhouse+http://u@a/traces":                     "clickhouse+http://u@a:8123/traces",
		"clickhouse+https://u:p%40@[::1]/traces":           "clickhouse+https://u@[::1]:8443/traces",
		"clickhouse://a,b/traces?cluster=main":             "clickhouse://default@a:9000,b:9000/traces?cluster=main",
		"clickhouse://a/traces?cluster=c&skip_verify=true": "clickhouse://default@a:9000/traces?cluster=c",
	} {
		if got := Location(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{
		"", "postgres://a/b", "clickhouse://", "clickhouse://secret@a", "clickhouse://secret@a/", "clickhouse://secret@a,/db", "clickhouse://secret@a,a/db",
		"clickhouse://u:secret%zz@a/db", "clickhouse://a/db?password=secret", "clickhouse://a/db?secure=secret", "clickhouse://a/db/secret", "clickhouse://a/db?%zz",
	} {
		_, err := parseURL(text)
		if err == nil || strings.Contains(err.Error(), "zz") || strings.Contains(err.Error(), "u:") {
			t.Errorf("%q: %v", text, err)
		}
	}
	a, err := parseURL("clickhouse://u:p%40ss@a/db")
	if err != nil || a.user != "u" || a.password != "p@ss" || a.database != "db" {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestReplicated: on a cluster every table is replicated and created on all
// hosts. Rows are inserted as they are without a cluster.
func TestReplicated(t *testing.T) {
	d := dialectOf(26, "main")
	for _, m := range schema {
		for _, statement := range append(statementsOf(m.SQL), schemaTable) {
			got := d.table(statement, "db")
			if strings.HasPrefix(statement, "INSERT ") {
				if got != statement {
					t.Errorf("%s became %s", statement, got)
				}
				continue
			}
			if !strings.Contains(got, " ON CLUSTER `main`") || strings.Contains(got, "@CLUSTER") ||
				strings.Contains(statement, "ENGINE") != strings.Contains(got, "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/db/") {
				t.Errorf("%s became %s", statement, got)
			}
			if one := dialectOf(18, "").table(statement, "db"); strings.Contains(one, "Replicated") || strings.Contains(one, "CLUSTER") {
				t.Errorf("without a cluster: %s", one)
			}
		}
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{"": "''", "a": "'a'", `it's \ "`: `'it\'s \\ "'`, "a\xff": "'a\xff'"} {
		if got := quote(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestCursor(t *testing.T) {
	c := cursor{floor: 1_700_000_000_000_000_000, seen: map[uint64]int64{7: 1_700_000_000_000_000_500, 1 << 63: 1_700_000_000_000_000_001}}
	got, err := parseCursor(c.text())
	if err != nil || got.text() != c.text() || got.seen[7] != c.seen[7] {
		t.Errorf("%s is %+v, %v", c.text(), got, err)
	}
	for _, bad := range []string{"c", "c!", "p1", "c" + strings.Repeat("_", 30), string(c.text()) + "A"} {
		if _, err := parseCursor(store.Cursor(bad)); err == nil {
			t.Errorf("%q is a cursor", bad)
		}
	}
}
