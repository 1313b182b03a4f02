//go:build unix

package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/postgres/postgrestest"
	"svc/store/storetest"
)

// open opens a store, and closes it when its test ends.
func open(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	server := postgrestest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		c, f, url := storetest.NewClock(), &storetest.Faults{}, server.Database(t)
		o := Options{Now: c.Now, MaxAutoAgents: storetest.MaxAutoAgents, FlushEvery: 50 * time.Millisecond, MergeEvery: 20 * time.Millisecond, mergeFrom: 1, fault: f.Ask}
		s := open(t, url, o)
		return storetest.Opened{Records: s, Traces: s, Clock: c, MaxAutoAgents: storetest.MaxAutoAgents, Fail: f.Set,
			Another: func(t testing.TB) (store.Records, store.Traces) { h := open(t, url, o); return h, h }}
	})
}

func TestRows(t *testing.T) {
	s := open(t, postgrestest.Start(t).Database(t), Options{Now: storetest.NewClock().Now})
	for _, id := range []string{"one", "two"} {
		if _, _, err := s.CreateTenant(t.Context(), store.TenantCreate{ID: id, Name: id}); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Rows(t, engine{s}, "one", "two")
}

// TestUseOfADeletedKey: a key that is deleted while its use is being written leaves no row
// of its use.
func TestUseOfADeletedKey(t *testing.T) {
	ctx := withTimeout(t, 60*time.Second)
	s := open(t, postgrestest.Start(t).Database(t), Options{FlushEvery: time.Hour})
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t", Key: &store.KeyCreate{Name: "a", Scope: store.ScopeAPI, Digest: store.DigestKey("a")}}); err != nil {
		t.Fatal(err)
	}
	key, err := s.Tenant("t").CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeIngest, Digest: store.DigestKey("k"), CreatedBy: store.DefaultAdminID})
	if err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, noteUses, [][]byte{[]byte("t")}, [][]byte{[]byte(key.ID)}, [][]byte{[]byte("12345678")}); err != nil {
			return err
		}
		go func() { deleted <- s.Tenant("t").DeleteKey(ctx, key.ID) }()
		for waits := false; !waits && len(deleted) == 0; {
			if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted), pg_sleep(0.01)::text`).Scan(&waits, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var left int
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM records WHERE bucket = 'key_used'`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows of uses are left, %v", left, err)
	}
}

func BenchmarkRecords(b *testing.B) {
	storetest.Bench(b, open(b, postgrestest.Start(b).Database(b), Options{}))
}

// TestCredentialRowsAreReadByKey: Authenticate reads the rows of one key and of its user,
// not those of all users of the tenant, also while the engine has no statistics.
func TestCredentialRowsAreReadByKey(t *testing.T) {
	s, digest := open(t, postgrestest.Start(t).Database(t), Options{}), store.DigestKey("x")
	info, _, err := s.CreateTenant(t.Context(), store.TenantCreate{Name: "t", Key: &store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: digest}})
	if err != nil {
		t.Fatal(err)
	}
	team, err := s.Tenant(info.ID).CreateTeam(t.Context(), store.TeamCreate{Name: "t"})
	for i := 0; err == nil && i < 100; i++ {
		_, err = s.Tenant(info.ID).AddMember(t.Context(), team.ID, store.MemberAdd{UserID: fmt.Sprint("u", i)})
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.pool.Query(t.Context(), `EXPLAIN (ANALYZE, TIMING OFF) `+credentialRows, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(list, pgx.RowTo[string])
	if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, "records_pkey") || strings.Contains(text, "Rows Removed") || strings.Contains(text, "Seq Scan") {
		t.Errorf("%v\n%s", err, text)
	}
}
