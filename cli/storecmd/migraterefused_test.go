//go:build unix

package storecmd

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.etcd.io/bbolt"

	"svc/cli/command"
	"svc/cli/process/processtest"
	"svc/store"
	"svc/store/bolt"
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
)

// TestMigrateRefuses: 'svc store migrate' refuses sources and targets that it cannot use, with
// a sentence that says what to do, and leaves both as they are.
func TestMigrateRefuses(t *testing.T) {
	server, dir := postgrestest.Start(t), t.TempDir()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sql := func(url, text string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		ok(err)
		_, err = conn.Exec(t.Context(), text)
		ok(err)
		ok(conn.Close(t.Context()))
	}
	// file and database make a store and change what is in it. A store with a tenant is not empty.
	file := func(name, tenant string, change func(meta *bbolt.Bucket) error) string {
		t.Helper()
		path := filepath.Join(dir, name+".db")
		st, err := bolt.Open(path, bolt.Options{NoSync: true})
		ok(err)
		if tenant != "" {
			_, _, err = st.CreateTenant(t.Context(), store.TenantCreate{Name: tenant})
			ok(err)
		}
		ok(st.Close())
		if change != nil {
			db, err := bbolt.Open(path, 0o600, nil)
			ok(err)
			ok(db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte("meta"))) }))
			ok(db.Close())
		}
		return "bbolt://" + path
	}
	database := func(change string) string {
		t.Helper()
		url := server.Database(t)
		st, err := postgres.Open(t.Context(), url, postgres.Options{})
		ok(err)
		ok(st.Close())
		sql(url, change)
		return url
	}
	marker := func(text string) func(meta *bbolt.Bucket) error {
		return func(meta *bbolt.Bucket) error { return meta.Put([]byte("migration"), []byte(text)) }
	}
	markerIn := func(text string) string { return `INSERT INTO migration VALUES (true, '` + text + `')` }

	from := file("from", "acme", nil)
	at := strings.TrimPrefix(from, "bbolt://")
	other := `{"Version":1,"ID":"x","From":"/other.db","Kind":"traces"}`
	unknown := `{"Version":1,"ID":"x","From":"` + at + `","Kind":"unheard of"}`
	cut := `{"Version":1,"ID":"x","From":"` + at
	latin := strings.Replace(server.Database(t), "/test_1", "/latin", 1)
	sql(strings.Replace(latin, "/latin", "/test_1", 1), `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`)
	earlier := func(meta *bbolt.Bucket) error { return meta.Put([]byte("format"), []byte("svc store")) }
	served, servedURL := file("served", "acme", nil), database(`SELECT 1`)
	serving, err := bolt.Open(strings.TrimPrefix(served, "bbolt://"), bolt.Options{NoSync: true})
	ok(err)
	defer serving.Close()
	servingURL, err := postgres.Open(t.Context(), servedURL, postgres.Options{Serving: true})
	ok(err)
	defer servingURL.Close()
	fresh := "bbolt://" + filepath.Join(dir, "fresh.db")

	for name, tt := range map[string]struct {
		from, to string
		want     []string
	}{
		"a file that is not empty":           {from, file("full", "other", nil), []string{"the target is not empty", "name an empty database, or a file that does not exist yet"}},
		"a database that is not empty":       {from, database(`INSERT INTO tenants (id, name, created, redaction_key) VALUES ('x', 'x', 1, '')`), []string{"the target is not empty", "name an empty database"}},
		"a file of another migration":        {from, file("other", "", marker(other)), []string{"belongs to another migration, from /other.db", "name the stores that the unfinished migration was between, or empty the target"}},
		"a database of another migration":    {from, database(markerIn(other)), []string{"belongs to another migration, from /other.db", "or empty the target"}},
		"a file with a cut marker":           {from, file("cut", "", marker(cut)), []string{"marker of the unfinished migration into the target cannot be read", "empty the target and begin again"}},
		"a database with a cut marker":       {from, database(markerIn(cut)), []string{"cannot be read", "empty the target and begin again"}},
		"a marker with an unknown position":  {from, database(markerIn(unknown)), []string{"cannot be read", "empty the target and begin again"}},
		"a marker of another version":        {from, database(markerIn(`{"Version":2,"From":"` + at + `"}`)), []string{"cannot be read", "empty the target and begin again"}},
		"a database in LATIN1":               {from, latin, []string{"encoding LATIN1", "createdb -E UTF8 -T template0"}},
		"a source of an earlier build":       {file("earlier", "", earlier), fresh, []string{"written by a build from before the first release", "keep the file for that build"}},
		"a target of an earlier build":       {from, file("earlier2", "", earlier), []string{"written by a build from before the first release", "name a path where no file exists yet"}},
		"a database of an earlier build":     {database(`ALTER TABLE svc_version RENAME TO svc_schema`), fresh, []string{"from before the first release", "keep the database for that build"}},
		"a source with an unfinished move":   {file("half", "acme", marker(other)), fresh, []string{"the target of an unfinished migration", "run the same 'svc store migrate' again"}},
		"a database with an unfinished move": {database(markerIn(other)), fresh, []string{"unfinished migration", "run the same 'svc store migrate' again"}},
		"a file that a server has open":      {served, fresh, []string{"in use by another process", "stop the server first"}},
		"a database that a server has open":  {servedURL, fresh, []string{"servers have the database open", "stop every 'svc serve' on it"}},
		"a target that a server has open":    {from, servedURL, []string{"servers have the database open", "name an empty database that no 'svc serve' uses"}},
		"a file that another target fills":   {from, served, []string{"in use by another process", "name a file that does not exist yet"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, _, stderr := processtest.New(t)
			cmd := NewStoreCmd(env)
			cmd.SetArgs([]string{"migrate", "--from", tt.from, "--to", tt.to})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			ran, err := cmd.ExecuteContextC(context.Background())
			if err == nil {
				t.Fatalf("it was moved: %s", stderr)
			}
			var text bytes.Buffer
			command.PrintError(&text, ran, err)
			for _, want := range tt.want {
				if !strings.Contains(text.String(), want) {
					t.Errorf("want %q in:\n%s", want, &text)
				}
			}
			t.Log(text.String())
		})
	}
	// The source is as it was, and can still be moved.
	env, _, stderr := processtest.New(t)
	o := migrateOptions{from: StoreOptions{url: from, flag: "from"}, to: StoreOptions{url: fresh, flag: "to"}, log: slog.New(slog.DiscardHandler)}
	if err := o.run(t.Context(), env); err != nil {
		t.Errorf("%v\n%s", err, stderr)
	}
}
