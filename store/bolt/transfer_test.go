package bolt

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"svc/store"
	"svc/store/transfer"
)

// TestEventsOutOfOrder: events that two processes dated out of order keep the order of
// their chain, in lists, in pages, in the index and in exports.
func TestEventsOutOfOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	target, err := OpenTarget(path)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Truncate(time.Second)
	var want, marker []byte
	rows := func(v ...any) (list []transfer.Row) {
		for i, one := range v {
			row, err := transfer.NewRow([]byte(fmt.Sprint(i)), one)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, row)
		}
		return list
	}
	ids := []string{"aev_02", "aev_05", "aev_03", "aev_04", "aev_01", "aev_07", "aev_06"} // in the order of the chain
	var events []any
	for i, id := range ids {
		events = append(events, store.AuditEvent{ID: id, CreatedAt: at, Kind: "team", ObjectID: "t", By: store.By{KeyID: "k"}, Hash: fmt.Sprint("hash ", i)})
	}
	marker = []byte("m")
	if err := target.Begin(ctx, marker); err != nil {
		t.Fatal(err)
	}
	for _, b := range []transfer.Batch{
		{Tenant: "t", Kind: transfer.Tenants, Rows: rows(transfer.Tenant{TenantInfo: store.TenantInfo{ID: "t", Name: "t", CreatedAt: at}, ChainLast: "hash 6"})},
		{Tenant: "t", Kind: transfer.AuditEvents, Rows: rows(events...)},
	} {
		b.From, b.Marker = marker, marker
		if err := target.Import(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	exported, err := target.Export(ctx, "t", transfer.AuditEvents, "", 100)
	if err != nil || len(exported) != len(ids) {
		t.Fatalf("%d events exported, %v", len(exported), err)
	}
	for i, row := range exported {
		if want, _ = json.Marshal(events[i]); string(row.Doc) != string(want) {
			t.Errorf("event %d is %s, want %s", i, row.Doc, want)
		}
	}
	if err := target.Finish(ctx, marker); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	newest := slices.Clone(ids)
	slices.Reverse(newest)
	for _, f := range []store.AuditEventFilter{{}, {Actor: "k"}, {Kind: "team", ObjectID: "t"}} {
		var got []string
		after := store.Place{}
		for {
			page, before, err := s.Tenant("t").ListAuditEvents(ctx, f, store.Page{Limit: 1, After: after})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got, after.ID = append(got, page[0].ID), page[0].ID
			wantBefore := ""
			if i := slices.Index(ids, page[0].ID); i > 0 {
				wantBefore = fmt.Sprint("hash ", i-1)
			}
			if before != wantBefore {
				t.Errorf("before %s is %q, want %q", page[0].ID, before, wantBefore)
			}
		}
		if !slices.Equal(got, newest) {
			t.Errorf("filter %+v: %v, want %v", f, got, newest)
		}
	}
	// Retention removes the events with their index entries.
	if _, err := s.Tenant("t").ApplyRetention(ctx, store.RetentionBounds{AuditEvents: at.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(ctx, path, nil); err != nil {
		t.Error(err)
	}
}
