package bolt

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// writeEvents writes n events of a tenant, 10 s apart, many in a transaction. One in
// 100,000 has a rare actor, kind or object.
func writeEvents(t testing.TB, s *Store, tenant string, n int, start time.Time) {
	t.Helper()
	var ids store.IDs
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(rare string, often ...string) string {
		if random.IntN(100_000) == 0 {
			return rare
		}
		return often[random.IntN(len(often))]
	}
	for i := 0; i < n; {
		err := s.commit(func(tx *bbolt.Tx) error {
			d := data{tx.Bucket(bucketData).Bucket([]byte(tenant))}
			chain := d.in(inAuditChain)
			for range min(20_000, n-i) {
				at := start.Add(time.Duration(i) * 10 * time.Second)
				ctx := store.ChangedBy(context.Background(), store.By{KeyID: pick("key_rare", "key_a", "key_b", "key_c"), KeyPrefix: "svc_api_abcd",
					UserID: pick("usr_rare", "usr_x", "usr_y"), Address: "192.0.2.1", RequestID: "req", Method: "PUT", Route: "/api/policies/{id}"})
				after := &store.Object{Kind: pick("team", "policy", "agent", "key"), ID: pick("pol_rare", "pol_1", "pol_2", fmt.Sprint("pol_", random.IntN(5000))),
					Name: "n", Fields: map[string]any{"name": i}}
				if i%2 == 0 { // key_even never changes an object that pol_odd changes
					ctx = store.ChangedBy(ctx, store.By{KeyID: "key_even"})
				} else if i%3 == 0 {
					after.ID = "pol_odd"
				}
				e, _ := store.NewAuditEvent(ctx, ids.New(store.PrefixAuditEvent, at), at, nil, after, string(chain.Get(chainLast)))
				if err := putJSON(d.in(inAuditEvents), e.ID, e); err != nil {
					return err
				}
				if err := indexEvent(d, []byte(e.ID), &e); err != nil {
					return err
				}
				if err := chain.Put(chainLast, []byte(e.Hash)); err != nil {
					return err
				}
				i++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// filtersOf returns filters for the n events of writeEvents, which match few, many or no
// events.
func filtersOf(start time.Time, n int) map[string]store.AuditEventFilter {
	half := start.Add(time.Duration(n/2) * 10 * time.Second)
	return map[string]store.AuditEventFilter{
		"none":                  {},
		"rare key":              {Actor: "key_rare"},
		"rare user":             {Actor: "usr_rare"},
		"often a key":           {Actor: "key_a"},
		"nobody":                {Actor: "key_none"},
		"rare kind":             {Kind: "team"},
		"rare object":           {ObjectID: "pol_rare"},
		"often an object":       {ObjectID: "pol_1"},
		"no object":             {ObjectID: "pol_none"},
		"rare of often":         {Actor: "key_a", ObjectID: "pol_4711"},
		"rare kind of a key":    {Actor: "key_a", Kind: "team"},
		"kind of a rare object": {Kind: "policy", ObjectID: "pol_rare"},
		"all three":             {Actor: "usr_x", Kind: "policy", ObjectID: "pol_4711"},
		"until":                 {Until: start.Add(time.Hour)},
		"since and until":       {Since: half.Add(-time.Hour), Until: half},
		"a key, until":          {Actor: "key_b", Until: start.Add(time.Hour)},
		"a rare key, since":     {Actor: "key_rare", Since: half},
		"before the first":      {Until: start.Add(-time.Hour)},
	}
}

// TestEventIndex compares lists with a match of the filter against each event: after
// writes, after retention, and in a store that was written before the index existed,
// during and after its build.
func TestEventIndex(t *testing.T) {
	const n = 3000
	path := filepath.Join(t.TempDir(), "svc.db")
	s := openAt(t, path, Options{NoSync: true})
	info, _, err := s.CreateTenant(context.Background(), store.TenantCreate{Name: "t", Key: &store.KeyCreate{Name: "k", Digest: store.DigestKey("k")}})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(-time.Hour * 24).Truncate(time.Millisecond)
	writeEvents(t, s, info.ID, n, start)
	compare := func(when string, s *Store) {
		t.Helper()
		tn := s.Tenant(info.ID)
		all, _, err := tn.ListAuditEvents(context.Background(), store.AuditEventFilter{}, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		filters := filtersOf(start, n)
		filters["an object"] = store.AuditEventFilter{ObjectID: all[7].ObjectID, Actor: all[7].By.KeyID, Kind: all[7].Kind}
		for name, f := range filters {
			var want, got []store.AuditEvent
			for _, e := range all {
				if f.Match(&e) {
					want = append(want, e)
				}
			}
			for page := (store.Page{Limit: 1 + len(want)/3}); ; page.After.ID = got[len(got)-1].ID {
				part, _, err := tn.ListAuditEvents(context.Background(), f, page)
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, part...); len(part) == 0 {
					break
				}
			}
			if !slices.EqualFunc(got, want, func(a, b store.AuditEvent) bool { return reflect.DeepEqual(a, b) }) {
				t.Errorf("%s, %s: %d events, want %d", when, name, len(got), len(want))
			}
		}
	}
	checked := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		read := int64(0)
		if _, err := Check(context.Background(), path, func(_ string, n, _ int64) { read = max(read, n) }); err != nil || read == 0 {
			t.Error(read, err)
		}
	}
	compare("written", s)
	if _, err := s.Tenant(info.ID).ApplyRetention(context.Background(), store.RetentionBounds{AuditEvents: start.Add(time.Hour), Limit: 10_000}); err != nil {
		t.Fatal(err)
	}
	compare("after retention", s)
	entries := entriesOf(t, s, info.ID)
	checked()

	// A file of schema 8 has no index.
	s = openAt(t, path, Options{NoSync: true})
	err = s.db.Update(func(tx *bbolt.Tx) error {
		if err := tx.Bucket(bucketData).Bucket([]byte(info.ID)).DeleteBucket([]byte(inAuditIndex)); err != nil {
			return err
		}
		return tx.Bucket(bucketMeta).Put(keySchema, []byte("8"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, Options{NoSync: true, indexLater: true})
	// One step, then another process opens the file.
	if left, err := s.indexMore(); err != nil {
		t.Fatal(left, err)
	}
	compare("while it is made", s)
	checked()
	s = openAt(t, path, Options{NoSync: true, indexLater: true})
	s.work.Add(1)
	s.buildIndex()
	compare("made later", s)
	if got := entriesOf(t, s, info.ID); !bytes.Equal(got, entries) {
		t.Errorf("the index that was made later has %d bytes of keys, the other %d", len(got), len(entries))
	}
	checked()
	// The check finds an event that is not in the index.
	s = openAt(t, path, Options{NoSync: true})
	err = s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketData).Bucket([]byte(info.ID)).Bucket([]byte(inAuditIndex))
		k, _ := b.Cursor().First()
		return b.Delete(k)
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, cerr := Check(context.Background(), path, nil); cerr == nil || err != nil {
		t.Errorf("an event that is not in the index was not found: %v, %v", cerr, err)
	}
}

func openAt(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// entriesOf returns all keys of a tenant's index.
func entriesOf(t testing.TB, s *Store, tenant string) (all []byte) {
	t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		d := data{tx.Bucket(bucketData).Bucket([]byte(tenant))}
		return d.in(inAuditIndex).ForEach(func(k, _ []byte) error {
			all = append(all, k...)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// BenchmarkAuditEvents lists pages of 51 of SVC_BENCH_EVENTS events (1,000,000), as the
// server does for 50, and makes the index of as many:
//
//	go test ./store/bolt -run '^$' -bench AuditEvents -benchtime 20x
func BenchmarkAuditEvents(b *testing.B) {
	n := 1_000_000
	if text := os.Getenv("SVC_BENCH_EVENTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	s := openAt(b, filepath.Join(b.TempDir(), "svc.db"), Options{NoSync: true})
	defer s.Close()
	info, _, err := s.CreateTenant(context.Background(), store.TenantCreate{Name: "t", Key: &store.KeyCreate{Name: "k", Digest: store.DigestKey("k")}})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now().Add(-time.Duration(n) * 10 * time.Second)
	began := time.Now()
	writeEvents(b, s, info.ID, n, start)
	b.Logf("%d events written in %v", n, time.Since(began))
	filters := filtersOf(start, n)
	filters["two that alternate"] = store.AuditEventFilter{Actor: "key_even", ObjectID: "pol_odd"}
	for name, f := range filters {
		b.Run(name, func(b *testing.B) {
			var list []store.AuditEvent
			for b.Loop() {
				if list, _, err = s.Tenant(info.ID).ListAuditEvents(context.Background(), f, store.Page{Limit: 51}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(list)), "events")
		})
	}
	b.Run("index", func(b *testing.B) {
		for range 1 {
			err := s.db.Update(func(tx *bbolt.Tx) error {
				if err := tx.Bucket(bucketData).Bucket([]byte(info.ID)).DeleteBucket([]byte(inAuditIndex)); err != nil {
					return err
				}
				return indexEvents(tx)
			})
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			for left := true; left; {
				if left, err = s.indexMore(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(time.Since(began).Seconds(), "s/index")
		}
	})
}
