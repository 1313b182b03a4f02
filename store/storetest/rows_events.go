package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"svc/store"
	"svc/store/record"
)

// ahead is an engine in a process whose clock is ahead.
type ahead struct {
	record.Engine
	by time.Duration
}

func (a ahead) Now() time.Time { return a.Engine.Now().Add(a.by) }

func (a ahead) NewID(prefix string, now time.Time) string { return store.FirstID(prefix, now) }

// testChainOfTwoClocks: two processes, one of which has a clock that is ahead, write to
// one chain of events. Lists and pages have the order of the chain, and time filters find
// every event.
func testChainOfTwoClocks(t *testing.T, e record.Engine, tenant string) {
	late := record.Of(ahead{e, time.Second}, tenant)
	plain := record.Of(e, tenant)
	start := e.Now()
	var want []string
	for i := range 20 {
		tn := &plain
		if i%3 == 0 {
			tn = &late
		}
		id := fmt.Sprintf("object %02d", i)
		err := e.Update(ctx, tenant, func(tx record.Tx) error {
			return tn.Changed(ctx, tx, nil, &store.Object{Kind: "thing", ID: id, Fields: map[string]any{"n": i}}, false)
		})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	var got []string
	var page store.Page
	for page.Limit = 3; ; {
		list, before, err := plain.ListAuditEvents(ctx, store.AuditEventFilter{Kind: "thing", Since: start}, page)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, ev := range list {
			got = append(got, ev.ObjectID)
		}
		last := list[len(list)-1]
		if last.Link(before) != last.Hash {
			t.Errorf("%s is not linked to the event before it", last.ObjectID)
		}
		page.After.ID = last.ID
	}
	if slices.Reverse(got); !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
	list, _, err := plain.ListAuditEvents(ctx, store.AuditEventFilter{Kind: "thing"}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range list {
		for _, f := range []store.AuditEventFilter{{Until: ev.CreatedAt}, {Since: ev.CreatedAt}, {Since: ev.CreatedAt, Until: ev.CreatedAt}} {
			some, _, err := plain.ListAuditEvents(ctx, f, store.Page{})
			if err != nil || !slices.ContainsFunc(some, func(o store.AuditEvent) bool { return o.ID == ev.ID }) {
				t.Errorf("filter %+v does not find %s of %v, %v", f, ev.ObjectID, ev.CreatedAt, err)
			}
		}
	}
}

// testEventsBehindAWrongClock: after one event of a clock that was years ahead, filters by
// time find the events of the right clock, although their ids stay ahead.
func testEventsBehindAWrongClock(t *testing.T, e record.Engine, tenant string) {
	plain, wrong := record.Of(e, tenant), record.Of(ahead{e, 5 * 365 * 24 * time.Hour}, tenant)
	var all []time.Time
	for i, tn := range []*record.Tenant{&plain, &wrong, &plain, &plain} {
		if err := e.Update(ctx, tenant, func(tx record.Tx) error {
			return tn.Changed(ctx, tx, nil, &store.Object{Kind: "clock", ID: fmt.Sprint(i), Fields: map[string]any{"n": i}}, false)
		}); err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := plain.ListAuditEvents(ctx, store.AuditEventFilter{Kind: "clock"}, store.Page{})
	if err != nil || len(list) != 4 {
		t.Fatal(len(list), err)
	}
	for i := range list {
		all = append(all, list[i].CreatedAt)
	}
	for _, c := range []struct {
		since, until time.Time
		want         string
	}{
		{time.Time{}, all[0].Add(time.Hour), "3 2 0 "},
		{all[1], all[0], "3 2 "},
		{time.Time{}, all[1], "2 0 "},
		{time.Time{}, all[3], "0 "},
		{all[0].Add(time.Hour), time.Time{}, "1 "},
	} {
		found, _, err := plain.ListAuditEvents(ctx, store.AuditEventFilter{Kind: "clock", Since: c.since, Until: c.until}, store.Page{})
		got := ""
		for i := range found {
			got += found[i].ObjectID + " "
		}
		if err != nil || got != c.want {
			t.Errorf("from %v until %v: events %q, want %q, %v", c.since, c.until, got, c.want, err)
		}
	}
}

// testEventFilters compares filtered lists of events, and their pages, with a match of the
// filter against each event, before and after retention.
func testEventFilters(t *testing.T, e record.Engine, tenant string) {
	tn := record.Of(e, tenant)
	pick := func(i int, list ...string) string { return list[i%len(list)] }
	quoted := `a "quoted" <id> ÿ`
	err := e.Update(ctx, tenant, func(tx record.Tx) error {
		for i := range 300 {
			as := store.ChangedBy(ctx, store.By{KeyID: pick(i, "key_a", "key_b", quoted), UserID: pick(i/3, "usr_x", "key_a", "")})
			o := &store.Object{Kind: pick(i/2, "policy", "team"), ID: pick(i/5, "pol_1", quoted, "pol_2", "policy"), Fields: map[string]any{"n": i}}
			if err := tn.Changed(as, tx, nil, o, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	compare := func(when string) {
		all, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{})
		if err != nil || len(all) < 200 {
			t.Fatal(len(all), err)
		}
		for _, f := range []store.AuditEventFilter{
			{Actor: "key_a"}, {Actor: "usr_x"}, {Actor: quoted}, {Actor: "nobody"}, {Kind: "team"}, {Kind: "polic"}, {ObjectID: quoted}, {ObjectID: "policy"},
			{Actor: "key_a", Kind: "policy", ObjectID: "pol_2"}, {Actor: quoted, ObjectID: quoted}, {Actor: "key_b", Since: all[150].CreatedAt},
			{Until: all[20].CreatedAt}, {Since: all[90].CreatedAt, Until: all[80].CreatedAt}, {Until: all[len(all)-1].CreatedAt.Add(-time.Hour)},
		} {
			var want, got []string
			for i := range all {
				if f.Match(&all[i]) {
					want = append(want, all[i].ID)
				}
			}
			for page := (store.Page{Limit: 1 + len(want)/3}); ; page.After.ID = got[len(got)-1] {
				part, _, err := tn.ListAuditEvents(ctx, f, page)
				if err != nil {
					t.Fatal(err)
				}
				for i := range part {
					got = append(got, part[i].ID)
				}
				if len(part) == 0 {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, filter %+v: %d events, want %d", when, f, len(got), len(want))
			}
		}
	}
	compare("written")
	all, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	res := must(tn.ApplyRetention(ctx, store.RetentionBounds{AuditEvents: all[240].CreatedAt}))(t)
	if res.AuditEvents != len(all)-241 {
		t.Errorf("%d events were removed of %d", res.AuditEvents, len(all))
	}
	compare("after retention")
}
