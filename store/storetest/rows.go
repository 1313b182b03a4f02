package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"svc/store"
	"svc/store/record"
)

// Rows tests the rows of an engine of package record: their order, what a transaction sees
// and takes back, the separation of tenants, and that concurrent writes lose nothing. Both
// tenants must exist.
func Rows(t *testing.T, e record.Engine, tenant, other string) {
	bucket := record.Buckets[0].Name
	update := func(t *testing.T, f func(tx record.Tx) error) {
		t.Helper()
		if err := e.Update(ctx, tenant, f); err != nil {
			t.Fatal(err)
		}
	}
	view := func(t *testing.T, tenant string, f func(tx record.Tx) error) {
		t.Helper()
		if err := e.View(ctx, tenant, f); err != nil {
			t.Fatal(err)
		}
	}
	scan := func(t *testing.T, tx record.Tx, r record.Range, most int) (list []string) {
		t.Helper()
		if err := tx.Scan(bucket, r, func(key, value []byte) (bool, error) {
			list = append(list, string(key)+"="+string(value))
			return len(list) < most, nil
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	// Keys around the bounds of parts of a scan, and bytes that are no text.
	const n = 500
	var all []string
	update(t, func(tx record.Tx) error {
		all = nil
		for i := range n {
			key := []byte{'k', byte(i >> 8), byte(i), 0xff, 0}
			value := fmt.Sprintf("v%d", i%7)
			all = append(all, string(key)+"="+value)
			if err := tx.Put(bucket, key, []byte(value)); err != nil {
				return err
			}
		}
		// A transaction sees its own writes.
		key := []byte("own")
		if err := errors.Join(tx.Put(bucket, key, []byte("a")), tx.Put(bucket, key, []byte("b"))); err != nil {
			return err
		}
		if got, err := tx.Get(bucket, key); err != nil || string(got) != "b" {
			t.Errorf("its own write is %q, %v", got, err)
		}
		if got := scan(t, tx, record.Range{From: key, To: []byte("owo")}, 9); len(got) != 1 {
			t.Errorf("a scan of its own write: %q", got)
		}
		if err := tx.Delete(bucket, key); err != nil {
			return err
		}
		if got, err := tx.Get(bucket, key); err != nil || got != nil {
			t.Errorf("its own removal is %q, %v", got, err)
		}
		return tx.Delete(bucket, []byte("never there"))
	})

	t.Run("scans", func(t *testing.T) {
		key := func(i int) []byte { return []byte(strings.SplitN(all[i], "=", 2)[0]) }
		k := []byte{'k'}
		end := []byte{'l'}
		having := [][]byte{[]byte("v3")}
		for name, c := range map[string]struct {
			r    record.Range
			most int
			want []string
		}{
			"all":                {record.Range{From: k, To: end}, n + 1, all},
			"reverse":            {record.Range{From: k, To: end, Reverse: true}, n + 1, reversed(all)},
			"stopped":            {record.Range{From: k, To: end}, 3, all[:3]},
			"stopped, reverse":   {record.Range{From: k, To: end, Reverse: true}, 3, reversed(all[n-3:])},
			"from inclusive":     {record.Range{From: key(70), To: end}, n, all[70:]},
			"to exclusive":       {record.Range{From: k, To: key(70)}, n, all[:70]},
			"reverse from to":    {record.Range{From: key(10), To: key(400), Reverse: true}, n, reversed(all[10:400])},
			"empty":              {record.Range{From: key(9), To: key(9)}, n, nil},
			"inverted":           {record.Range{From: key(9), To: key(3)}, n, nil},
			"behind the last":    {record.Range{From: end, To: []byte{'m'}}, n, nil},
			"reverse behind all": {record.Range{From: key(n - 2), To: []byte{0xff, 0xff}, Reverse: true}, n, reversed(all[n-2:])},
			"having":             {record.Range{From: k, To: end, Having: having}, n, filtered(all, "=v3")},
			"having, reverse":    {record.Range{From: k, To: end, Having: having, Reverse: true}, 70, reversed(filtered(all, "=v3"))[:70]},
			"having none":        {record.Range{From: k, To: end, Having: [][]byte{[]byte("v3"), []byte("x")}}, n, nil},
		} {
			view(t, tenant, func(tx record.Tx) error {
				if got := scan(t, tx, c.r, c.most); !slices.Equal(got, c.want) {
					t.Errorf("%s: %d rows, want %d", name, len(got), len(c.want))
				}
				if counted, err := tx.Count(bucket, c.r); err != nil || counted < len(c.want) || c.most > len(c.want) && counted != len(c.want) {
					t.Errorf("%s: %d rows are counted, want %d, %v", name, counted, len(c.want), err)
				}
				c.r.Keys = true
				for i, got := range scan(t, tx, c.r, c.most) {
					if want := strings.TrimRight(c.want[i], "v0123456"); got != want {
						t.Errorf("%s: the key in place %d is %q, want %q", name, i, got, want)
					}
				}
				return nil
			})
		}
		wrong := errors.New("wrong")
		if err := e.View(ctx, tenant, func(tx record.Tx) error {
			return tx.Scan(bucket, record.Range{}, func([]byte, []byte) (bool, error) { return true, wrong })
		}); !errors.Is(err, wrong) {
			t.Errorf("the error of a scan's function: %v", err)
		}
	})

	t.Run("tenants", func(t *testing.T) {
		var mine, theirs int
		view(t, tenant, func(tx record.Tx) (err error) { mine, err = tx.Count(bucket, record.Range{}); return err })
		view(t, other, func(tx record.Tx) (err error) {
			theirs, err = tx.Count(bucket, record.Range{})
			if got := scan(t, tx, record.Range{From: []byte{'k'}, To: []byte{'l'}}, n); len(got) != 0 {
				t.Errorf("another tenant sees %d rows", len(got))
			}
			return err
		})
		if mine < n || theirs >= n {
			t.Errorf("%d rows of the tenant, %d of the other", mine, theirs)
		}
		none := func(record.Tx) error { t.Error("the function ran for an unknown tenant"); return nil }
		for _, err := range []error{e.View(ctx, "nobody", none), e.Update(ctx, "nobody", none)} {
			wantKind(t, err, store.NotFound, "")
		}
	})

	t.Run("rollback", func(t *testing.T) {
		wrong := errors.New("wrong")
		old := all[0][:len(all[0])-3]
		err := e.Update(ctx, tenant, func(tx record.Tx) error {
			return errors.Join(tx.Put(bucket, []byte("new"), []byte("x")), tx.Put(bucket, []byte(old), []byte("x")), tx.Delete(bucket, []byte(old)), wrong)
		})
		if !errors.Is(err, wrong) {
			t.Errorf("the error is %v", err)
		}
		view(t, tenant, func(tx record.Tx) error {
			got, err := tx.Get(bucket, []byte("new"))
			if err != nil || got != nil {
				t.Errorf("a row of a failed transaction: %q, %v", got, err)
			}
			if got := scan(t, tx, record.Range{From: []byte{'k'}, To: []byte{'l'}}, n); !slices.Equal(got, all) {
				t.Errorf("%d rows after a failed transaction, want %d", len(got), len(all))
			}
			return nil
		})
	})

	t.Run("races", func(t *testing.T) {
		const racers, rounds = 4, 20
		key := []byte("counter")
		race(racers, func(int) {
			for range rounds {
				if err := e.Update(ctx, tenant, func(tx record.Tx) error {
					value, err := tx.Get(bucket, key)
					if err != nil {
						return err
					}
					return tx.Put(bucket, key, append(slices.Clone(value), '.'))
				}); err != nil {
					t.Error(err)
				}
			}
		})
		view(t, tenant, func(tx record.Tx) error {
			value, err := tx.Get(bucket, key)
			if len(value) != racers*rounds {
				t.Errorf("%d writes are left of %d", len(value), racers*rounds)
			}
			return err
		})
		update(t, func(tx record.Tx) error {
			for i := range all {
				if err := tx.Delete(bucket, []byte(strings.SplitN(all[i], "=", 2)[0])); err != nil {
					return err
				}
			}
			return tx.Delete(bucket, key)
		})
	})

	t.Run("ended context", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for _, err := range []error{e.View(ended, tenant, nil), e.Update(ended, tenant, nil)} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("with an ended context: %v", err)
			}
		}
	})

	t.Run("chain of two clocks", func(t *testing.T) { testChainOfTwoClocks(t, e, other) })
	t.Run("filters of events", func(t *testing.T) { testEventFilters(t, e, tenant) })
	t.Run("events behind a wrong clock", func(t *testing.T) { testEventsBehindAWrongClock(t, e, tenant) })
	t.Run("what is read", func(t *testing.T) { testWhatIsRead(t, e, tenant) })
	t.Run("marks in the future", func(t *testing.T) { testMarksInTheFuture(t, e, tenant) })
	t.Run("shared rows", func(t *testing.T) { testSharedRows(t, e, tenant, other) })
	t.Run("moved rows", func(t *testing.T) { testMovedRows(t, e, tenant, other) })
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func filtered(list []string, suffix string) (out []string) {
	for _, s := range list {
		if strings.HasSuffix(s, suffix) {
			out = append(out, s)
		}
	}
	return out
}

// testMovedRows reads all rows of a tenant in steps, as a migration does, and writes them
// again.
func testMovedRows(t *testing.T, e record.Engine, from, to string) {
	read := func(tenant string, most int) (list []record.Row) {
		var after []byte
		for {
			n := 0
			err := e.View(ctx, tenant, func(tx record.Tx) error {
				return record.Rows(tx, after, func(at []byte, row record.Row) (bool, error) {
					list = append(list, record.Row{Bucket: row.Bucket, Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
					after = bytes.Clone(at)
					n++
					return n < most, nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return list
			}
		}
	}
	equal := func(a, b record.Row) bool {
		return a.Bucket == b.Bucket && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
	}
	all := read(to, 1<<20)
	if stepwise := read(to, 3); len(all) < 20 || !slices.EqualFunc(all, stepwise, equal) {
		t.Errorf("%d rows in steps, %d at once", len(stepwise), len(all))
	}
	// Both tenants are in one store, where only one can have the digest of a key.
	all = slices.DeleteFunc(all, func(row record.Row) bool { return row.Bucket == record.KeyRows })
	filled := record.Of(e, from)
	put := func(row record.Row) error {
		return e.Update(ctx, from, func(tx record.Tx) error { return filled.PutRow(tx, row) })
	}
	for _, row := range all {
		if err := put(row); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range all {
		if !slices.ContainsFunc(read(from, 1<<20), func(o record.Row) bool { return equal(row, o) }) {
			t.Errorf("row %q of %s was not moved", row.Key, row.Bucket)
		}
	}
	if err := put(record.Row{Bucket: "unheard of", Key: []byte("k"), Value: []byte("v")}); err == nil {
		t.Error("a row of an unknown bucket was taken")
	}
}

// testMarksInTheFuture: a user can have marks of events that were dated in the future by a
// clock that was wrong; current events take effect nevertheless.
func testMarksInTheFuture(t *testing.T, e record.Engine, tenant string) {
	tn := record.Of(e, tenant)
	apply := func(typ store.UserEventType) store.UserEventOutcome {
		return must(tn.ApplyUserEvent(ctx, store.UserEvent{Type: typ, CreatedAt: e.Now(), UserID: "u", Email: "u@x.io"}))(t)
	}
	apply(store.UserCreated)
	if err := e.Update(ctx, tenant, func(tx record.Tx) error {
		value, err := tx.Get(record.UserRows, []byte("u"))
		if err != nil {
			return err
		}
		var u map[string]any
		if err := json.Unmarshal(value, &u); err != nil {
			return err
		}
		for _, mark := range []string{"Profile", "State"} {
			u[mark].(map[string]any)["At"] = e.Now().AddDate(1, 0, 0)
		}
		value, err = json.Marshal(u)
		return errors.Join(err, tx.Put(record.UserRows, []byte("u"), value))
	}); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []store.UserEventType{store.UserUpdated, store.UserSuspended} {
		if out := apply(typ); !out.Applied {
			t.Errorf("%s: %+v", typ, out)
		}
	}
}

// testSharedRows: rows of shared buckets are seen by all tenants, and of concurrent
// creations of one row by two tenants one fails.
func testSharedRows(t *testing.T, e record.Engine, tenants ...string) {
	var made, taken atomic.Int64
	race(6, func(i int) {
		tn := record.Of(e, tenants[i%len(tenants)])
		_, err := tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeIngest, Digest: store.DigestKey("shared"), CreatedBy: store.DefaultAdminID})
		switch {
		case err == nil:
			made.Add(1)
		case store.KindOf(err) == store.Conflict:
			taken.Add(1)
		default:
			t.Error(err)
		}
	})
	if made.Load() != 1 || taken.Load() != 5 {
		t.Errorf("%d keys with one secret were made, %d refused", made.Load(), taken.Load())
	}
}
